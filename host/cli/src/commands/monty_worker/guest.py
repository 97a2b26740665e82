"""Runs snippets, and makes the calls of the host. Runs in the guest."""

import ast, asyncio, base64, builtins, importlib.machinery, inspect, io, itertools, linecache, sys, time, types

import _monty_values as values
from _monty_wire import field, last, number, packed, parse, text

FUNCTION_CALL, OS_CALL, NAME_LOOKUP, RESOLVE_FUTURES, COMPLETE, ERROR = 2, 3, 4, 5, 6, 7
RESUME_CALL, RESUME_FUTURES = 4, 6

turn = None
"""The tool that passes an event to the client and returns the next request."""
sources = values.sources
offsets = {}
"""The offsets of the lines of snippets in bytes, by name."""
called, awaited = set(), set()
"""The source positions of called functions and of awaited calls."""
pending = {}
"""The futures of unanswered calls, by call ID."""
snippets = calls = 0


def exchange(kind, body):
    sys.stdout.flush()
    sys.stderr.flush()
    answer = base64.b64decode(turn(kind=kind, body=base64.b64encode(body).decode()))
    return answer[0], parse(answer[1:])


def span(name, line, column, end_line, end_column):
    """Returns a source position: the file, and the start and end of the expression in bytes."""
    starts = offsets[name]
    if max(line, end_line) > len(starts):
        return None
    return name, starts[line - 1] + column, starts[end_line - 1] + end_column


def position(of):
    """Returns the source position of the expression that a frame, or its nearest caller in a snippet, evaluates."""
    while of is not None and of.f_code.co_filename not in sources:
        of = of.f_back
    if of is None:
        return None
    places = list(of.f_code.co_positions())
    line, end_line, column, end_column = places[min(of.f_lasti // 2, len(places) - 1)]
    if None in (line, end_line, column, end_column):
        return None
    return span(of.f_code.co_filename, line, column, end_line, end_column)


def place(at, found):
    return b"" if found is None else field(at, field(1, found[0]) + number(2, found[1]) + number(3, found[2]))


def outcome(call, data, decoded):
    """Returns the value of a call, or raises its exception."""
    fields = parse(data)
    if 1 in fields:
        return decoded[last(fields, 1)]
    if 2 in fields:
        raise values.raised_exception(last(fields, 2))
    if 3 in fields:
        pending[call] = loop.create_future()
        return pending[call]
    if 4 in fields:
        raise NameError(f"name '{text(fields, 4)}' is not defined", name=text(fields, 4))
    raise RuntimeError("the host does not handle the call")


def settle(future, call, result, decoded):
    try:
        future.set_result(outcome(call, last(result, 2, b""), decoded))
    except Exception as error:
        future.set_exception(error)


def call_host(name, args, kwargs, receiver=None):
    global calls
    call, arena = calls, values.Arena()
    calls += 1
    found = position(sys._getframe(1))
    body = field(1, name) + packed(2, [arena.add(each) for each in args])
    for key, value in kwargs.items():
        body += field(3, number(1, arena.add(key)) + number(2, arena.add(value)))
    # The host may await the call immediately if no other task could run in the meantime.
    waits = found in awaited and len(asyncio.all_tasks(loop)) == 1
    body += number(4, call) + (field(5, field(1, receiver)) if receiver else b"") + number(6, waits)
    kind, answer = exchange(FUNCTION_CALL, body + field(7, arena.encoded()) + place(8, found))
    decoded = values.decode(last(answer, 3 if kind == RESUME_CALL else 2, b""))
    if kind != RESUME_FUTURES:
        return outcome(call, last(answer, 2, b""), decoded)
    future = loop.create_future()
    settle(future, call, parse(last(answer, 1, b"")), decoded)
    return future


def look_up(name, receiver=None, owner=""):
    """Returns the value of a name that is undefined, or of an attribute that the host has not sent. A function that the
    snippet calls needs no answer: the call names it."""
    found = position(sys._getframe(1))
    if found in called and not (receiver and name.startswith("_")):
        return values.HostFunction.of(name, receiver)
    body = field(1, name) + (field(2, field(1, receiver)) if receiver else b"") + place(3, found)
    _, answer = exchange(NAME_LOOKUP, body)
    if 2 in answer:
        return values.decode(last(answer, 1, b""))[last(answer, 2)]
    if 4 in answer:
        raise values.raised_exception(last(answer, 4))
    if receiver:
        raise AttributeError(f"{owner} has no attribute '{name}'", name=name)
    raise KeyError(name)


class Builtins(dict):
    """Asks the host for names that are undefined."""

    def __missing__(self, name):
        if sys._getframe(1).f_code.co_filename not in sources or name.startswith("__"):
            raise KeyError(name)
        return look_up(name)


class HostModules:
    """Imports modules that only the host has. The host sends a module with its submodules."""

    def __init__(self, module=None):
        self.module = module

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        global calls
        if path is not None:
            parent, _, attribute = name.rpartition(".")
            module = vars(sys.modules[parent]).get(attribute) if parent in sys.modules else None
            is_host = isinstance(module, types.ModuleType) and "_host_id" in vars(module)
            return importlib.machinery.ModuleSpec(name, cls(module)) if is_host else None
        of = sys._getframe(1)
        while of is not None and of.f_code.co_filename.startswith("<frozen importlib"):
            of = of.f_back
        # Modules of the sandbox also try to import missing modules.
        if of is None or of.f_code.co_filename not in sources:
            return None
        call, calls = calls, calls + 1
        body = number(1, call) + field(31, field(1, name)) + place(52, position(of))
        _, answer = exchange(OS_CALL, body)
        given = parse(last(answer, 2, b""))
        if 1 not in given and 2 not in given:
            return None
        module = outcome(call, last(answer, 2, b""), values.decode(last(answer, 3, b"")))
        return importlib.machinery.ModuleSpec(name, cls(module))

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        pass


class Loop(asyncio.BaseEventLoop):
    """Waits for the host's answers when no task can run."""

    def __init__(self):
        super().__init__()
        self._selector = self

    def select(self, timeout):
        if timeout == 0 or not pending:
            # Without a timer or a call, the tasks wait for each other.
            if timeout is None:
                raise RuntimeError("all tasks wait for each other")
            time.sleep(timeout)
            return []
        found = position(sys._getframe(1))
        _, answer = exchange(RESOLVE_FUTURES, packed(1, list(pending)) + place(2, found))
        decoded = values.decode(last(answer, 2, b""))
        for each in answer.get(1, ()):
            result = parse(each)
            future = pending.pop(last(result, 1), None)
            if future is not None and not future.done():
                settle(future, last(result, 1), result, decoded)
        return []

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


loop = Loop()


def run_coroutine(main, *, debug=None, loop_factory=None):
    """Replaces `asyncio.run`, whose own loop cannot wait for the host's answers."""
    return loop.run_until_complete(main)


def mark(tree, name):
    """Records the source positions of called functions and of awaited calls."""
    at = lambda node: span(name, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called.add(at(node.func))
        if isinstance(node, ast.Await):
            awaited.add(at(node.value))


def run(fields):
    """Runs a snippet, and returns the value of its last expression."""
    global snippets
    name, source = f"<python-input-{snippets}>", text(fields, 1)
    snippets += 1
    # The line ends of CPython: `\n`, `\r` and `\r\n`. The client's offsets count their bytes.
    lines = list(io.StringIO(source, newline=""))
    sources[name] = [each.rstrip("\r\n") for each in lines]
    offsets[name] = list(itertools.accumulate((len(each.encode()) for each in lines), initial=0))
    linecache.cache[name] = (len(source), None, [f"{each}\n" for each in sources[name]], name)
    scope, decoded = vars(sys.modules["__main__"]), values.decode(last(fields, 3, b""))
    for each in fields.get(2, ()):
        given = parse(each)
        scope[text(given, 1)] = decoded[last(given, 2)]
    scope["__builtins__"] = Builtins(vars(builtins))
    tree = ast.parse(source, name)
    mark(tree, name)
    value = tree.body.pop().value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    parts = [(tree, "exec")] if tree.body else []
    parts += [(ast.Expression(value), "eval")] if value else []
    result = None
    for part, mode in parts:
        code = compile(part, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, scope)
        if code.co_flags & inspect.CO_COROUTINE:
            result = loop.run_until_complete(result)
    return result if value else None


def feed():
    """Receives a snippet, runs it, and sends its result."""
    try:
        asyncio.set_event_loop(loop)
        _, fields = exchange(0, b"")
        arena = values.Arena()
        at = arena.add(run(fields))
        kind, body = COMPLETE, number(1, at) + field(2, arena.encoded())
    except BaseException as error:
        kind, body = ERROR, field(1, values.raised(error))
        # Otherwise its tasks would continue in the next snippet.
        for task in asyncio.all_tasks(loop):
            task.cancel()
    pending.clear()
    exchange_last(kind, body)


def exchange_last(kind, body):
    sys.stdout.flush()
    sys.stderr.flush()
    turn(kind=kind, body=base64.b64encode(body).decode())


def start(tool, recursion):
    global turn
    turn, values.call_host, values.look_up = tool, call_host, look_up
    sys.meta_path.append(HostModules)
    asyncio.run = run_coroutine
    sys.setrecursionlimit(recursion)
