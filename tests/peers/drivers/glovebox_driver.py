"""Glovebox through its Python package, under the default limits, with fuel counted: glovebox_driver.py RUNTIME"""

from __future__ import annotations

import sys
from functools import cached_property

from glovebox_sandbox import Limits, Run, Sandbox, Session, Tool, WaitingRun
from serve import Peer, serve


def printed(run: Run) -> str:
    run.raise_for_outcome()
    return run.stdout


def pay(invoice: int) -> str:
    """Pays an invoice, and returns the receipt."""
    raise NotImplementedError("the driver answers the calls")


def waits(run: Run | WaitingRun) -> WaitingRun:
    if isinstance(run, WaitingRun):
        return run
    run.raise_for_outcome()
    raise RuntimeError("the script has ended")


class Glovebox(Peer):
    def __init__(self, runtime: str) -> None:
        # Does not take a checkpoint before each script, because no other contestant can roll back.
        self.box = Sandbox(runtime, checkpoints="never")
        self.runtime = runtime

    @cached_property
    def paying(self) -> Sandbox:
        """The sandbox of scripts that are suspended. Scripts make up to 102 calls; the default limit is 100."""
        limits = Limits(tool_calls=1000)
        return Sandbox(self.runtime, backend="native", limits=limits, tools=[Tool(pay, waits=True)])

    def fresh(self, code: str) -> str:
        return printed(self.box.execute(code))

    def open(self) -> Session:
        return self.box.session()

    def run(self, session: Session, code: str) -> str:
        return printed(session.execute(code))

    def save(self, session: Session) -> bytes:
        return session.hibernate()

    def restore(self, state: bytes) -> Session:
        return self.box.resume(state)

    def start(self, code: str) -> WaitingRun:
        return waits(self.paying.start(code.replace("pay(", "tools.pay(")))

    def invoice(self, run: WaitingRun) -> int:
        (call,) = run.calls
        invoice: int = call.arguments["invoice"]
        return invoice

    def answer(self, run: WaitingRun, receipt: str) -> WaitingRun:
        (call,) = run.calls
        return waits(run.answer({call.id: receipt}))

    def finish(self, run: WaitingRun, receipt: str) -> str:
        (call,) = run.calls
        ended = run.answer({call.id: receipt})
        if isinstance(ended, WaitingRun):
            raise RuntimeError(f"the script has not ended: {ended}")
        return printed(ended)

    def suspend(self, run: WaitingRun) -> bytes:
        return run.suspend()

    def resume_suspended(self, state: bytes, receipt: str) -> WaitingRun:
        return self.answer(waits(self.paying.resume_suspended(state)), receipt)

    def close(self, session: Session) -> None:
        session.close()


serve(Glovebox(sys.argv[1]))
