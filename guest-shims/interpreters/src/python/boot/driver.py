"""The driver functions that the host calls."""

# Used to remove a script's trace and profile hooks when it ends. Otherwise, the hooks would trace the driver's calls
# and could raise exceptions there.
settrace, setprofile = sys.settrace, sys.setprofile


def perform(name, shown):
    """Runs the source and returns the report of its value, or `None`. Propagates the script's exceptions."""
    global running
    result = loop = None
    try:
        if shown:
            head, tail = halves(name)
        else:
            head, tail = compile(source, name, "exec", 0, True), None
    except SyntaxError as error:
        loop = asyncio.run
        head, tail = awaiting(error, name)
    running = True
    if loop is not None:
        value = in_loop(loop, head, tail)
    else:
        value = None
        if head is not None:
            exec(head, namespace)
        if tail is not None:
            value = eval(tail, namespace)
    if value is not None:
        if shown:
            settrace(None)
            setprofile(None)
            result = described(value, True)
        globals().pop("__warningregistry__", None)  # otherwise, a warning is not repeated for a later script
        ended = tail
        value = None  # may run a finalizer that prints or warns
    running = False
    settrace(None)
    setprofile(None)
    return result


def awaiting(error, name):
    """Compiles a script with top-level `await`, as in notebooks. Raises `error` if it is not about `await`."""
    if not str(error.msg).startswith(("'await'", "'async ", "asynchronous comprehension")):
        raise error
    return parsed(name, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def awaited(head, tail):
    for code in head, tail:
        value = None if code is None else eval(code, namespace)
        if code is not None and code.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


def in_loop(run_loop, head, tail):
    """Runs both parts of a script with top-level `await` in one event loop. Cancels remaining tasks."""
    try:
        return run_loop(awaited(head, tail))
    except BaseException as error:
        # Drops the event loop's frames from the traceback.
        trace = at = trace_of(error)
        while at is not None:
            trace = at if at.tb_frame.f_code is awaited.__code__ else trace
            at = at.tb_next
        error.__traceback__ = trace
        raise


def run(last, shown):
    """Runs the source in `buffer` as `<sandbox>`, without arguments, environment or standard input. Reports the value
    of the last statement if `shown`. `last` means that the interpreter will run no further script."""
    global source, running
    result, name = None, DEFAULT_NAME
    try:
        source = buffer.decode()
        if not last:
            name = session_name(DEFAULT_NAME)
        sys.argv = [""]
        result = perform(name, shown)
    except BaseException as error:
        running = False
        try:
            settrace(None)
            setprofile(None)
        except BaseException:  # the script's hook raised an exception, so CPython removed the hook
            settrace(None)
            setprofile(None)
        result = failed(error, name)
    try:
        if "matplotlib.pyplot" in sys.modules:
            result = show_left(result, name)
        if last:
            finish()
        elif reserve is None:
            restock()
        if sys.stdout is out and sys.stderr is err:
            out.flush()
            err.flush()
            return result
    except BaseException:
        pass
    restore_streams()
    return result


def run_with(last, shown):
    """Like `run`, with a name, arguments, environment and standard input. `buffer` holds length-framed fields: flags,
    name, source, the number of arguments, the arguments, then names and values of the environment."""
    global source, running, dirty_stdin, cached_name
    result = None
    name = DEFAULT_NAME
    try:
        flags, given, source, count, *rest = fields()
        count = int(count)
        if dirty_stdin or "i" in flags:
            sys.stdin = sys.__stdin__ = open_input()
        dirty_stdin = "i" in flags
        set_environment(dict(zip(rest[count::2], rest[count + 1 :: 2])))
        script = "" if given.startswith("<") and given.endswith(">") else given
        sys.argv = [script, *rest[:count]]
        if script:
            namespace["__file__"] = os.path.join(WORKSPACE, script)
        else:
            namespace.pop("__file__", None)
        name = given if last else session_name(given)
        if cached_name not in (given, DEFAULT_NAME):
            linecache.cache.pop(cached_name, None)
        cached_name = given
        linecache.cache[given] = (len(source), None, quoted, given)
        result = perform(name, shown)
    except BaseException as error:
        running = False
        try:
            settrace(None)
            setprofile(None)
        except BaseException:  # the script's hook raised an exception, so CPython removed the hook
            settrace(None)
            setprofile(None)
        result = failed(error, name)
    if "matplotlib.pyplot" in sys.modules:
        result = show_left(result, name)
    if last:
        finish()
    elif reserve is None:
        restock()
    restore_streams()
    return result


def restock():
    global reserve
    try:
        reserve = bytearray(RESERVE_BYTES)
    except MemoryError:
        pass  # tried again after the next script


def fields():
    data = bytes(buffer)
    at, found = 0, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found


def set_environment(wanted):
    """Adds `wanted` to the image's environment, after reverting the changes for the previous script."""
    global script_env
    for key in script_env:
        if key not in wanted:
            before = replaced_env.pop(key, None)
            if before is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = before
    for key, value in wanted.items():
        if key not in script_env:
            replaced_env[key] = os.environ.get(key)
        if os.environ.get(key) != value:
            os.environ[key] = value
    if "TZ" in wanted or "TZ" in script_env:
        time.tzset()
    script_env = wanted


kept = {}  # the image's globals in `__main__`, before any script runs


def finish():
    """Performs the steps of Py_FinalizeEx that a script can observe: exit handlers and finalizers."""
    try:
        if threading._threading_atexits:
            threading._shutdown()
        atexit._run_exitfuncs()
        if len(logging._handlerList) > 1:  # settle.py unregistered the exit handler of `logging`
            logging.shutdown()
        if len(namespace) > len(kept):  # runs the finalizers of the script's globals
            for private in True, False:
                for key in list(namespace):
                    if key.startswith("_") is private and not key.startswith("__") and key not in kept:
                        namespace[key] = None
    except BaseException:
        pass  # CPython prints exceptions of exit handlers and finalizers


def flush():
    """Flushes the files that the script left open. The host calls this only if files are open. The image's objects are
    frozen, so `gc.get_objects` returns only the script's objects. Must run before a garbage collection, which may close
    a file before its buffer is flushed."""
    try:
        for item in gc.get_objects():
            try:
                if isinstance(item, io.IOBase) and not item.closed and item.writable():
                    item.flush()
            except BaseException:
                pass
    except BaseException:
        pass
    return None


TextStream, BufferedStream, RawStream = io.TextIOWrapper, io.BufferedWriter, io.FileIO
flush_text = TextStream.flush


def flush_streams():
    """Flushes the standard streams after the host stopped a script, including the script's own replacements. Skips
    streams that would run the script's code."""
    settrace(None)
    setprofile(None)
    for name, ours in ("stdout", out), ("stderr", err):
        for stream in sys.__dict__.get(name), ours:
            try:
                if (
                    type(stream) is TextStream
                    and type(stream.buffer) is BufferedStream
                    and type(stream.buffer.raw) is RawStream
                ):
                    # An instance attribute can override a method of the class.
                    keys = [*stream.buffer.__dict__, *stream.buffer.raw.__dict__]
                    if not [key for key in keys if type(key) is not str or key not in ("mode", "name")]:
                        flush_text(stream)
            except BaseException:
                pass
    return None


def close():
    """Runs exit handlers and flushes files before the host drops a session's interpreter."""
    finish()
    restore_streams()
    return flush()


def grow():
    """Extends `buffer`. Its content is the number of bytes to add, as decimal text."""
    try:
        buffer.extend(bytes(int(buffer)))
        return None
    except MemoryError:
        return last_resort


def validate():
    """Compiles a script without running it. Reports one diagnostic, because the parser stops at the first error."""
    global source
    try:
        name, source = fields()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
        return None
    except SyntaxError as error:
        kind, message, line, column = type(error).__name__, str(error.msg), error.lineno or 1, error.offset or 1
    except BaseException as error:  # the parser's own limits: memory, recursion
        kind, message, line, column = type(error).__name__, str(error), 1, 1
    zero = source.find("\0")
    if zero >= 0 and "null bytes" in message:
        line, column = source.count("\n", 0, zero) + 1, zero - source.rfind("\n", 0, zero)
    message = f"{kind}: {message}" if message else kind
    return reply(b"D", str(max(line, 1)), str(max(column, 1)), clip(message, MESSAGE_CHARS))
