from glovebox_sandbox import Limits, Sandbox

box = Sandbox(
    "python",
    backend="component",
    provider="glovebox-python-closed.wasm",
    limits=Limits(fuel=50_000_000),
)

run = box.execute("print(sum(range(10)))")
print(run.outcome, run.stdout.strip(), run.fuel_consumed > 0)

# An endless script ends at its limit, and the sandbox stays usable.
endless = box.execute("while True: pass")
print(endless.outcome.kind, endless.outcome.resource)

# A session keeps its interpreter between scripts.
with box.session() as session:
    session.execute("total = 40")
    print(session.execute("total + 2").value)
