from glovebox_sandbox import Limits, Sandbox

box = Sandbox(
    "python",
    backend="component",
    provider="glovebox-python-closed.wasm",
    limits=Limits(fuel=50_000_000),
)

run = box.execute("print(sum(range(10)))")
print(run.outcome, run.stdout.strip(), run.fuel_consumed > 0)

# Whatever a script does is an outcome, and the sandbox goes on.
endless = box.execute("while True: pass")
print(endless.outcome.kind, endless.outcome.resource)

# An interpreter that persists.
with box.session() as session:
    session.execute("total = 40")
    print(session.execute("total + 2").value)
