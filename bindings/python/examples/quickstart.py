from glovebox_sandbox import Sandbox
from glovebox_sandbox.types import Limits, OutcomeExhausted, Policy

sandbox = Sandbox("glovebox-python-closed.wasm")

execution = sandbox.execute("print(sum(range(10)))")
print(execution.outcome.tag, execution.stdout.bytes.decode().strip(), execution.fuel_consumed > 0)

# Whatever a script does is an outcome, and the sandbox goes on.
endless = sandbox.execute("while True: pass", policy=Policy(limits=Limits(fuel=50_000_000)))
assert isinstance(endless.outcome, OutcomeExhausted)
print(endless.outcome.tag, endless.outcome.value.resource)

# An interpreter that is kept.
with sandbox.open() as session:
    session.execute("total = 40")
    value = session.execute("total + 2").value
    print(value and value.repr)
