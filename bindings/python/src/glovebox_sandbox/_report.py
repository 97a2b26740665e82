"""Human-readable explanations of executions that did not complete."""

from __future__ import annotations

from .run import Outcome, Run


def traceback_of(run: Run) -> str:
    """Returns the traceback of the exception that ended the script, also after a soft limit or a cancellation."""
    raised = run.outcome if run.outcome.kind == "raised" else run.interrupted
    return "" if raised is None else (raised.traceback or str(raised)).rstrip("\n")


def explain(run: Run) -> str:
    """Explains the outcome of the script, its effect on the session, and remedies. Returns an empty text if the script
    completed without advice."""
    outcome = run.outcome
    parts = []
    if outcome.kind != "completed":
        parts.append(f"glovebox: {outcome}")
    rollback = run.rolled_back_to
    if rollback is not None:
        lost = f" and {rollback.executions_lost} before it" if rollback.executions_lost else ""
        parts.append(f"glovebox: the session was rolled back: the changes of this execution{lost} were undone")
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
    """Returns the name of an outcome, for notebooks that expect the name of an exception class."""
    match outcome.kind:
        case "raised":
            return outcome.type or "Thrown"
        case "exhausted":
            return {"fuel": "OutOfFuel", "time": "TimedOut", "memory": "OutOfMemory"}[outcome.resource or "fuel"]
        case "cancelled":
            return "KeyboardInterrupt"
    return outcome.kind.capitalize()


def error_value(outcome: Outcome) -> str:
    """Returns the message of an outcome, for notebooks that expect the message of an exception."""
    if outcome.kind == "raised":
        return outcome.message or ""
    return "the script was cancelled" if outcome.kind == "cancelled" else str(outcome)
