"""A small agent: runs a model's scripts in the sandbox, and shows every possible outcome.

The program is a component, built by componentize-py for the world `command` of `wit/`. The same tool generates the
bindings, `wit_world`. `componentize-py … bindings DIR` writes them to files for editors, with the contract's
documentation.

The bindings represent the contract as follows:
* a record is a dataclass whose fields must all be given (`record` below fills in the defaults);
* a case of a variant is a class: `Outcome_Exited(3)`; match on it. An enum is an `Enum`, `none` is `None`;
* a function that can fail raises `Err`, with the case of `sandbox-error` as its `value`;
* a resource is a context manager: leaving it drops it.
"""

import re
import sys
from dataclasses import fields

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports import glovebox_sandbox_types as types
from wit_world.imports import sandbox

PYTHON = types.Runtime_Python()
JAVASCRIPT = types.Runtime_Javascript()


def record(kind, **given):
    """Creates a record with these fields. All others are `None`, the default."""
    return kind(**{field.name: None for field in fields(kind)} | given)


def request(source, **given):
    return record(types.Request, source=source, **given)


def policy(**limits):
    """Returns the default policy with these limits. A policy can request less than the host grants, never more."""
    return record(types.Policy, limits=record(types.Limits, **limits))


NO_OPTIONS = record(sandbox.SessionOptions)


def words(name):
    """Returns a case's name in the contract: Python spells it `UnknownRuntime` or `STACK_OVERFLOW`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()


def described(execution):
    """Describes the result of a script. No outcome is an error: the sandbox worked as intended."""
    match execution.outcome:
        case types.Outcome_Completed():
            text = "completed"
        case types.Outcome_Exited(code):
            text = f"exited with {code}"
        case types.Outcome_Raised(raised):
            text = f"raised {raised.type_name}: {raised.message} (line {raised.line})"
        case types.Outcome_Exhausted(exhausted):
            text = f"exhausted {words(exhausted.resource.name)}, limit {exhausted.limit}"
        case types.Outcome_Cancelled():
            text = "cancelled"
        case types.Outcome_Trapped(kind):
            text = f"trapped, {words(kind.name)}"
    if execution.value:
        text += f", value {execution.value.repr}"
    if execution.stdout.bytes:
        text += f", wrote: {execution.stdout.bytes.decode().strip()}"
    return text


def show_file(files, path):
    """Prints a file in chunks, because it may be larger than one call returns."""
    contents = b""
    while piece := files.read(path, len(contents), 65_536):
        contents += piece
    print(f"file: {path} ({len(contents)} bytes): {contents.decode()}")


# A model's possible answers to "add up the prices". Each answer is tried, and its problem is reported back to the
# model.
ANSWERS = [
    "total = sum(item['price'] for item in context",
    "total = sum(item.price for item in context)",
    """\
total = sum(item['price'] for item in context)
with open('total.txt', 'w') as file:
    file.write(str(total))
total""",
]


def work(session):
    """The loop of an agent: validates and runs each script until one succeeds."""
    for turn, answer in enumerate(ANSWERS, start=1):
        # Uses the language's own parser, which runs nothing.
        diagnostics = sandbox.validate(PYTHON, request(answer), policy())
        if diagnostics:
            first = diagnostics[0]
            print(f"turn {turn}: not well-formed, line {first.line}, column {first.column}: {first.message}")
            continue
        execution = session.execute(request(answer))
        print(f"turn {turn}: {described(execution)}")
        if isinstance(execution.outcome, types.Outcome_Completed):
            break
    with session.files() as files:
        show_file(files, "total.txt")


def total(session):
    return session.get_variable("total").json


def keep(session):
    """Keeps variables and files in a session, and forks, undoes and saves its state."""
    with session.fork() as copy:
        copy.execute(request("total += 100"))
        print(f"fork: {total(copy)} in the copy, {total(session)} in the original")

    session.execute(request("total = 0"))
    before = total(session)
    session.undo()
    print(f"undo: {before} before, {total(session)} after")

    with (
        session.hibernate() as state,
        sandbox.Session.resume(PYTHON, state, policy(), NO_OPTIONS) as resumed,
    ):
        print(f"resume: {total(resumed)}")


def outcomes():
    """Shows every way in which a script can end, each in its own interpreter."""
    endings = [
        (JAVASCRIPT, request("console.log('hello from javascript')"), policy()),
        (PYTHON, request("raise SystemExit(3)"), policy()),
        (PYTHON, request("int('twelve')"), policy()),
        (PYTHON, request("while True: pass"), policy(fuel=50_000_000)),
        # Cancelled after a tenth of a second.
        (PYTHON, request("import time\ntime.sleep(60)", deadline_ms=100), policy()),
        # Hashing nested tuples exceeds the interpreter's native stack.
        (PYTHON, request("t = ()\nfor _ in range(400000): t = (t,)\nhash(t)"), policy()),
    ]
    for runtime, script, limits in endings:
        print(f"outcome: {described(sandbox.execute(runtime, script, limits))}")


# A tool of this program, and a script that calls it.
REMEMBER = types.Tool(
    name="remember",
    description="Keeps a fact, and says how many there are.",
    arguments_schema='{"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}',
)
NOTES = """\
kept = [tools.remember(fact=fact) for fact in ('tea costs 3', 'milk costs 2')]
try:
    tools.remember(fact='one too many')
except tools.ToolError as error:
    print('refused:', error)
open('notes.txt', 'w').write(str(kept))
"""


def step():
    """Runs a script whose tool calls this program answers: the script waits for each answer, and then continues."""
    notebook, answers = [], []
    with sandbox.start(PYTHON, request(NOTES), policy(), [REMEMBER]) as started:
        while True:
            match started.continue_(answers, 1_000):
                case sandbox.Step_NeedsTools(calls):
                    answers = [sandbox.ToolAnswer(call.id, remember(notebook, call)) for call in calls]
                case sandbox.Step_Running():
                    answers = []
                case sandbox.Step_Done(execution):
                    break
        print(f"steps: {described(execution)}")
        with started.files() as files:
            show_file(files, "notes.txt")


def remember(notebook, call):
    print(f"tool: {call.name} {call.arguments}")
    if len(notebook) == 2:
        return Err(types.CallFailure(types.ToolError.FAILED, "the notebook is full"))
    notebook.append(call.arguments)
    return Ok(str(len(notebook)))


def refused(function, *arguments):
    """Makes a call that must be refused, and prints the reason. An error is a fault of the host or the caller, never of
    the script."""
    try:
        function(*arguments)
    except Err as error:
        match error.value:
            case types.SandboxError_SourceTooLarge(size) | types.SandboxError_StdinTooLarge(size):
                detail = f", {size.bytes} bytes of at most {size.limit}"
            case types.SandboxError_File(failure):
                detail = f", {words(failure.kind.name)}"
            case _:  # The other cases carry a message: `error.value.value`.
                detail = ""
        print(f"error: {words(type(error.value).__name__.removeprefix('SandboxError_'))}{detail}")
    else:
        raise AssertionError("the sandbox accepted an invalid call")


def errors(session):
    refused(sandbox.execute, types.Runtime_Named("cobol"), request(""), policy())
    refused(sandbox.execute, PYTHON, request(""), policy(fuel=0))
    refused(sandbox.execute, PYTHON, request("print(1 + 1)"), policy(source_bytes=8))
    refused(sandbox.execute, PYTHON, request("", stdin=b"abc"), policy(stdin_bytes=2))
    refused(sandbox.start, PYTHON, request(""), policy(), [types.Tool("no name", "", None)])
    with sandbox.Blob() as state:
        state.append(b"no session")
        refused(sandbox.Session.resume, PYTHON, state, policy(), NO_OPTIONS)
    refused(session.undo_to, 1_000_000)
    with session.files() as files:
        refused(files.stat, "missing.txt")

    # A session runs one execution at a time. Until the started execution has ended, the session refuses other calls.
    with session.start(request("import time\ntime.sleep(60)")) as started:
        refused(session.execute, request(""))
        started.cancel()
        while not isinstance(step := started.continue_([], None), sandbox.Step_Done):
            pass
        print(f"outcome: {described(step.value)}")
        refused(started.files)
    session.close()
    refused(session.execute, request(""))


def main():
    runtimes = [words(runtime.language.name) for runtime in sandbox.info().runtimes]
    print(f"runtimes: {', '.join(dict.fromkeys(runtimes))}")
    prices = record(sandbox.SessionOptions, context='[{"price": 5}, {"price": 7}]')
    with sandbox.Session.open(PYTHON, policy(), prices) as session:
        work(session)
        keep(session)
        outcomes()
        step()
        errors(session)


class Run(exports.Run):
    def run(self):
        """Called as `wasi:cli/run`. Raising `Err` makes the host exit with 1, without a message."""
        try:
            main()
        except Err as error:
            # An uncaught sandbox error would be mistaken for this function's own error.
            print(error.value, file=sys.stderr)
            raise Err(None) from None
