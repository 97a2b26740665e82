"""The measures of scripts that are suspended while they wait for an answer to a call to `pay`."""

from __future__ import annotations

# Numbers of calls that have been answered before the script is suspended.
CALLS = (1, 10, 100)


def suspend(calls: int) -> str:
    """Returns the name of the measure for suspending."""
    return f"suspend({calls})"


def resume(calls: int) -> str:
    """Returns the name of the measure for resuming."""
    return f"resume({calls})"


NAMES = frozenset(name(calls) for calls in CALLS for name in (suspend, resume))


def python(calls: int) -> str:
    """Returns a script with two more calls: it waits for the first while it is suspended, and for the second after it
    was resumed."""
    return f"""receipts = []
for number in range({calls + 2}):
    receipts.append(pay(invoice=number))
print(len(receipts), receipts[0], receipts[-1])"""


def javascript(calls: int) -> str:
    """Like `python`, but returns the script in JavaScript."""
    return f"""var receipts = [];
for (let number = 0; number < {calls + 2}; number++) receipts.push(await pay({{ invoice: number }}));
console.log(String(receipts.length), receipts[0], receipts[receipts.length - 1]);"""


def expected(calls: int) -> str:
    """Returns the correct answer from a driver: the number of the call for which the resumed script waits, and the
    output of the script."""
    return f"{calls + 1} {calls + 2} receipt 0 receipt {calls + 1}"
