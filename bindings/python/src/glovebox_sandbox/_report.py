"""What is said to people of an execution that did not complete."""

from __future__ import annotations

from .run import Outcome, Run


def traceback_of(run: Run) -> str:
    """The traceback of what ended the script, if that was an exception: the script's own, or the one by which it was asked to stop."""
    raised = run.outcome if run.outcome.kind == "raised" else run.interrupted
    return "" if raised is None else (raised.traceback or str(raised)).rstrip("\n")


def explain(run: Run) -> str:
    """How the script ended, what that did to the session, and what can be done. Empty if it completed and nothing is to be said."""
    outcome = run.outcome
    parts = []
    if outcome.kind != "completed":
        parts.append(f"glovebox: {outcome}")
    rollback = run.rolled_back_to
    if rollback is not None:
        lost = f", and {rollback.executions_lost} before it" if rollback.executions_lost else ""
        parts.append(f"glovebox: the session was rolled back: what this execution{lost} did is undone")
    return "\n".join([*parts, *_advice(run)])


def _advice(run: Run) -> list[str]:
    lines = []
    for advice in run.guidance.advice:
        lines.append(f"glovebox: {advice.summary}")
        lines += [f"  * {step}" for step in advice.steps]
        if advice.correction is not None:
            lines.append(f"  line {advice.correction.line}: {advice.correction.text}")
    return lines


def error_name(outcome: Outcome) -> str:
    """The name of an outcome where a notebook wants an exception's class."""
    match outcome.kind:
        case "raised":
            return outcome.type or "Thrown"
        case "exhausted":
            return {"fuel": "OutOfFuel", "time": "TimedOut", "memory": "OutOfMemory"}[outcome.resource or "fuel"]
        case "cancelled":
            return "KeyboardInterrupt"
    return outcome.kind.capitalize()


def error_value(outcome: Outcome) -> str:
    """The message that belongs to `error_name`."""
    if outcome.kind == "raised":
        return outcome.message or ""
    return "the script was cancelled" if outcome.kind == "cancelled" else str(outcome)
