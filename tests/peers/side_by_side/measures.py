"""The measures, their scripts, and the expected answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import agent, suspension
from .programs import PROGRAMS

Language = str


@dataclass(frozen=True)
class Script:
    """A script in both languages."""

    python: str
    javascript: str

    def in_language(self, language: Language) -> str:
        return self.python if language == "python" else self.javascript


def each_is(expected: str) -> Callable[[Sequence[str]], str | None]:
    """Requires every answer to be `expected`."""

    def check(answers: Sequence[str]) -> str | None:
        return next((f"`{answer}` for `{expected}`" for answer in answers if answer != expected), None)

    return check


def counts(answers: Sequence[str]) -> str | None:
    """Requires the answers 1, 2, 3 and so on: each script must find the state of the previous one."""
    expected = [str(number) for number in range(1, len(answers) + 1)]
    return next((f"`{found}` for `{right}`" for found, right in zip(answers, expected, strict=True) if found != right), None)


@dataclass(frozen=True)
class Measure:
    name: str
    """The name, as in `glovebox-bench` if it has this measure."""
    what: str
    do: str
    """The request for the driver. For `process`, the start of the driver is measured instead."""
    code: Script
    check: Callable[[Sequence[str]], str | None]
    setup: Script = Script("", "")
    commands: Sequence[Script] = ()
    """The commands of `agent run`."""
    calls: int = 0
    """Number of answered calls before a script is suspended."""


PRINT = Script("print(1)", "console.log(1)")
FIB = Script(
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(24))",
    "var fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2);\nconsole.log(String(fib(24)));",
)
LOOP = Script(
    "def loop(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\nprint(loop(1000000))",
    "var loop = (n) => { let total = 0; for (let i = 0; i < n; i++) total += i; return total; };\nconsole.log(String(loop(1000000)));",
)
WORDS = Script(
    """def words(n):
    counts = {}
    for i in range(n):
        key = "k" + str(i % 1000)
        counts[key] = counts.get(key, 0) + i
    text = ",".join([key + "=" + str(counts[key]) for key in sorted(counts)])
    parts = text.split(",")
    return str(len(text)) + " " + parts[-1]
print(words(30000))""",
    """var words = (n) => {
    const counts = {};
    for (let i = 0; i < n; i++) {
        const key = "k" + String(i % 1000);
        counts[key] = (counts[key] ?? 0) + i;
    }
    const text = Object.keys(counts).sort().map((key) => key + "=" + String(counts[key])).join(",");
    const parts = text.split(",");
    return String(text.length) + " " + parts[parts.length - 1];
};
console.log(words(30000));""",
)
# Creates the contents of a session to save, and checks them after the session is resumed.
HOLDS = Script(
    "x = 41\nnames = ['name ' + str(i) for i in range(1000)]",
    "var x = 41;\nvar names = Array.from({ length: 1000 }, (_, i) => 'name ' + String(i));",
)
ASKED = Script("print(x + 1, len(names), names[999])", "console.log(String(x + 1), String(names.length), names[999])")
SAVED = each_is("42 1000 name 999")


def suspended(calls: int) -> tuple[Measure, Measure]:
    """Returns the measures of a script that is suspended after this number of answered calls."""
    code = Script(suspension.python(calls), suspension.javascript(calls))
    check = each_is(suspension.expected(calls))
    after = f"{calls} answered call{'' if calls == 1 else 's'}"
    suspend = f"turns a script that waits for an answer into bytes, after {after}"
    resume = f"a script from these bytes, with the answer, until it waits for the next one, after {after}"
    return (
        Measure(suspension.suspend(calls), suspend, "suspend", code, check, calls=calls),
        Measure(suspension.resume(calls), resume, "continue", code, check, calls=calls),
    )


MEASURES = (
    Measure("fresh", "a new interpreter that runs `print(1)` or `console.log(1)`", "fresh", PRINT, each_is("1")),
    Measure(
        "live",
        "`x += 1` in a session, and its value",
        "live",
        Script("x += 1\nprint(x)", "x += 1; console.log(String(x))"),
        counts,
        Script("x = 0", "var x = 0;"),
    ),
    Measure("hibernate", "saves a session with a thousand strings as bytes", "hibernate", ASKED, SAVED, HOLDS),
    Measure("resume", "a session from these bytes, until it has answered", "resume", ASKED, SAVED, HOLDS),
    Measure("process", "a new process that loads the package, until `fresh` has answered", "process", PRINT, each_is("1")),
    Measure(
        agent.NAME,
        "a new session that prints `1 + 1` and runs ten small commands; without sessions, earlier commands run again",
        "agent",
        Script("print(1 + 1)", "console.log(String(1 + 1))"),
        each_is(agent.EXPECTED),
        commands=[Script(*both) for both in zip(agent.PYTHON, agent.JAVASCRIPT, strict=True)],
    ),
    Measure("fib(24)", "75,025 calls to a function, in a session", "work", FIB, each_is("46368")),
    Measure("additions", "a million additions in a function, in a session", "work", LOOP, each_is("499999500000")),
    Measure("words", "30,000 updates of a dictionary by text keys, sorted, joined, split", "work", WORDS, each_is("11889 k999=464970")),
    *(Measure(name, what, "work", Script(python, javascript), each_is(answer)) for name, what, python, javascript, answer in PROGRAMS),
    *(each for calls in suspension.CALLS for each in suspended(calls)),
)
