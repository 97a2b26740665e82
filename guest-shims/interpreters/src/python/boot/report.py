"""Reports exceptions and exit codes of scripts in CPython's format."""


def reply(kind, *fields):
    """Builds a reply: `kind`, then each field in UTF-8, preceded by its length in four bytes."""
    global answer
    answer = kind + frame(*fields)
    return answer


def frame(*fields):
    data = b""
    for field in fields:
        field = field.encode("utf-8", "backslashreplace")
        data += len(field).to_bytes(4, "little") + field
    return data


def trace_of(error):
    return BaseException.__traceback__.__get__(error)


_format_frame = traceback.StackSummary.format_frame_summary


def format_frame_summary(self, frame_summary, **settings):
    # traceback parses a frame's line to place its carets. Reuses the result for equal consecutive frames.
    frame = frame_summary
    key = frame.filename, frame.lineno, frame.name, frame.colno, frame.end_lineno, frame.end_colno, frame.locals is None
    if getattr(self, "last_key", None) != key or frame.locals is not None:
        self.last_key, self.last_text = key, _format_frame(self, frame, **settings)
    return self.last_text


replace(traceback.StackSummary, "format_frame_summary", format_frame_summary)


_get_code_position = traceback._get_code_position
last_position = None, -1, None


def get_code_position(code, instruction):
    # traceback iterates over a function's positions for each frame. Reuses the result for equal consecutive frames.
    global last_position
    if last_position[0] is not code or last_position[1] != instruction:
        last_position = code, instruction, _get_code_position(code, instruction)
    return last_position[2]


replace(traceback, "_get_code_position", get_code_position)


_init = traceback.TracebackException.__init__


def init(self, exc_type, exc_value, *args, **named):
    # Removes CPython's hint about `site` directories, which do not exist here.
    _init(self, exc_type, exc_value, *args, **named)
    if isinstance(exc_value, ModuleNotFoundError):
        self._str = self._str.partition(". Site initialization is disabled")[0]


replace(traceback.TracebackException, "__init__", init)


_distance = traceback._levenshtein_distance


def distance(a, b, max_cost):
    # traceback calls this for its "Did you mean" hints. The test below costs a thousandth of the exact distance and
    # excludes most names. Each letter that only one of the names contains, ignoring case, must be inserted, deleted
    # or replaced, which costs two.
    ours, theirs = set(a.lower()), set(b.lower())
    if 2 * max(len(ours - theirs), len(theirs - ours)) > max_cost:
        return max_cost + 1
    return _distance(a, b, max_cost)


replace(traceback, "_levenshtein_distance", distance)


if hasattr(traceback.FrameSummary, "_lines"):  # since 3.13

    def quote(frame, lines):
        frame._lines = "".join(line.rstrip() + "\n" for line in lines[frame.lineno - 1 : frame.end_lineno])

else:

    def quote(frame, lines):
        frame._line = lines[frame.lineno - 1]


def requote(rendered, seen):
    """Removes the driver's frames. Quotes the lines of earlier scripts from the source in their `Name`."""
    if rendered is None or id(rendered) in seen:
        return
    seen.add(id(rendered))
    rendered.stack[:] = [frame for frame in rendered.stack if frame.filename != DRIVER_NAME]
    for frame in rendered.stack:
        if type(frame.filename) is Name:
            lines = lines_of(frame.filename)
            if 0 < (frame.lineno or 0) <= len(lines):
                quote(frame, lines)
    for other in (rendered.__cause__, rendered.__context__, *(rendered.exceptions or ())):
        requote(other, seen)


def render(error):
    trace = trace_of(error)
    rendered = traceback.TracebackException(type(error), error, trace, lookup_lines=False, compact=True)
    requote(rendered, set())
    if trace is None:
        rendered.stack = None  # for a syntax error in the script itself, CPython prints no header
    return "".join(rendered.format())


def write_error(text):
    try:
        stream = sys.stderr
    except AttributeError:
        stream = err
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except BaseException:
        try:
            err.write(text)
        except BaseException:
            pass  # restore_streams opens new streams


def show(error, text):
    """Prints an exception like CPython's PyErr_Print (Python/pythonrun.c), through `sys.excepthook`. Returns the exit
    code if the script's hook called `sys.exit`."""
    hook = sys.__dict__.get("excepthook")
    if hook is sys.__excepthook__:
        write_error(text)
    elif hook is None:
        write_error("sys.excepthook is missing\n" + text)
    else:
        try:
            hook(type(error), error, trace_of(error))
        except SystemExit as left:
            return exit_code(left)
        except BaseException as broken:
            trace = trace_of(broken)
            broken.__traceback__ = trace and trace.tb_next
            write_error("Error in sys.excepthook:\n" + render(broken) + "\nOriginal exception was:\n" + text)
    return None


def exit_code(left):
    """Converts the argument of `sys.exit` to an exit code, like CPython's handle_system_exit."""
    code = left.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code if -0x80000000 <= code <= 0x7FFFFFFF else -1
    try:
        text = str(code)
    except BaseException:
        text = ""
    write_error(text + "\n")
    return 1


def line_of(error, trace, name):
    """Returns the line of the script's innermost frame, or of its syntax error."""
    if isinstance(error, SyntaxError) and error.filename == name and trace is None:
        return error.lineno or 0
    line = 0
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        # Compares `Name`s by identity: functions of earlier executions refer to lines of another source.
        if file is name or (type(name) is not Name and file == name):
            line = trace.tb_lineno or line
        trace = trace.tb_next
    return line


def clip(text, chars):
    return text if len(text) <= chars else text[: chars // 2] + "\n[...]\n" + text[-chars // 2 :]


def failed(error, name, silent=False):
    """Reports the exception that ended a script. The traceback of `error` still starts in the driver. Never raises. If
    `silent`, prints nothing and reports even a SystemExit as an exception."""
    global reserve
    try:
        if isinstance(error, MemoryError):
            reserve = None
        if sys.getrecursionlimit() < 500:
            sys.setrecursionlimit(1000)  # the script may have set a limit that is too low for this function
        trace = trace_of(error)
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        error.__traceback__ = trace
        if trace is None and isinstance(error, SyntaxError):
            complete(error, name)
        if isinstance(error, SystemExit) and not silent:
            return reply(b"X", str(exit_code(error)))
        text = render(error)
        code = None if silent else show(error, text)
        if code is not None:
            return reply(b"X", str(code))
        try:
            message = str(error)
        except BaseException:
            message = "<exception str() failed>"
        line = str(line_of(error, trace, name))
        kind = clip(type(error).__name__, NAME_CHARS)
        letter = b"I" if isinstance(error, Interrupted) else b"R"
        return reply(letter, kind, clip(message, MESSAGE_CHARS), clip(text, TRACEBACK_CHARS), line)
    except BaseException:  # out of memory, or a hostile exception class
        pass
    try:
        message, line = in_short(error, name)
        reserve = error.__traceback__ = None  # also frees the objects that its frames refer to
        kind = clip(type(error).__name__, NAME_CHARS)
        text = f"{kind}: the traceback could not be formatted\n"
        if not silent:
            write_error(text)
        return reply(b"R", kind, message, text, line)
    except MemoryError:
        return last_resort
    except BaseException:
        return indescribable


def complete(error, name):
    """Adds the source line to a syntax error, because CPython's compiler can read the line only from a file. Removes
    the error's context: errors from the driver's attempts to compile the last statement separately."""
    error.__context__ = None
    if error.text is None and error.filename == name and error.lineno:
        error.text = split_lines(source)[error.lineno - 1]


def in_short(error, name):
    """Returns the message and the line of an exception whose traceback cannot be formatted. Returns "" and "0" if that
    fails, too."""
    try:
        return clip(str(error), MESSAGE_CHARS), str(line_of(error, trace_of(error), name))
    except BaseException:
        return "", "0"


last_resort = b"R" + frame("MemoryError", "", "MemoryError\n", "0")
indescribable = b"R" + frame("Exception", "", "the exception could not be formatted\n", "0")
