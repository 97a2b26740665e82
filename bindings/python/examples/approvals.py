"""Pays invoices after a person has approved them. The program stops while it waits for a decision.

Usage: python approvals.py [approve | deny]
"""

import sys
from pathlib import Path

from glovebox_sandbox import Sandbox, Tool, WaitingRun

SCRIPT = """
for invoice, euros in {"paper": 20, "chairs": 900}.items():
    try:
        print(invoice, tools.pay(invoice=invoice, euros=euros))
    except tools.ToolDenied as error:
        print(invoice, "denied:", error)
"""

STATE = Path("payments.suspended")


def pay(invoice: str, euros: int) -> str:
    """Pays an invoice."""
    return f"paid {euros} EUR"


with Sandbox("python", tools=[Tool(pay, waits=True)]) as box:
    if not STATE.exists():
        run = box.start(SCRIPT)
    else:
        state = STATE.read_bytes()
        (call,) = box.suspended_calls(state)
        if sys.argv[1:] == ["approve"]:
            run = box.resume_suspended(state, {call.id: pay(**call.arguments)})
        else:
            run = box.resume_suspended(state, denied={call.id: "too expensive"})

    if isinstance(run, WaitingRun):
        STATE.write_bytes(run.suspend())
        print("waiting:", run.calls[0].arguments)
    else:
        STATE.unlink(missing_ok=True)
        print(run.stdout, end="")
