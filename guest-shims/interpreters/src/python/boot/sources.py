"""The sources of scripts, for tracebacks and `inspect`.

The scripts of a session can have the same file name. In `co_filename`, each script of a session therefore has its own
`Name`, which equals the file name and refers to the script's source.
"""


class Name(str):
    """A script's file name in a session, with the script's source."""

    __slots__ = ("source",)  # the text, replaced by its lines on first use; scripts can change it

    def __reduce_ex__(self, protocol):
        return str, (str(self),)  # pickles as a `str`, because no interpreter can import this class


class Lines:
    """The running script's lines for linecache, split on first use."""

    def __init__(self):
        self.text, self.split = None, []

    def lines(self):
        if self.text is not source:
            self.text, self.split = source, split_lines(source)
        return self.split

    def __len__(self):
        return len(self.lines())

    def __getitem__(self, at):
        return self.lines()[at]

    def __iter__(self):
        return iter(self.lines())


def split_lines(text):
    # Not str.splitlines, which also splits at form feeds. traceback needs the final newline to align its carets.
    return io.StringIO(text if text.endswith("\n") else text + "\n", None).readlines()


def lines_of(name):
    kept = getattr(name, "source", None)
    if type(kept) is str:
        kept = name.source = split_lines(kept) if kept else []
    return kept if type(kept) is list else []


def text_of(name):
    kept = getattr(name, "source", None)
    try:
        return kept if type(kept) is str else "".join(lines_of(name))
    except TypeError:
        return ""


quoted = Lines()

# --- the scripts of a session ---------------------------------------------------------------------

SWEEP_CHARS = 64 * 1024  # size of new sources that triggers a sweep
SOURCES_CHARS = 1024 * 1024  # limit for the sources of a session
OVERHEAD_CHARS = 128  # size of a `Name` without its source

scripts = []  # the names of the session's scripts, the oldest first
new_chars = 0  # the size of the sources since the last sweep
count_references = sys.getrefcount


def session_name(name):
    """Returns the file name for compiling a session's script. Forgets the previous script if it is unused."""
    global new_chars
    if scripts and not is_used(-1):
        scripts.pop()  # at once, because objects that stay between temporary ones fragment the memory
    name = Name(name)
    name.source = source
    scripts.append(name)
    new_chars += len(source) + OVERHEAD_CHARS
    if new_chars > SWEEP_CHARS:
        sweep()
    return name


def is_used(at):
    # Counts every script with a class as used, because a class without methods has no code that refers to the script.
    return count_references(scripts[at]) > UNUSED or "class " in text_of(scripts[at])


def sweep():
    """Forgets the sources of scripts that left neither code nor classes behind, and the oldest sources beyond the
    limit. Keeps the running script."""
    global new_chars
    used, chars = [], 0
    for at in reversed(range(len(scripts))):
        if is_used(at):
            chars += len(text_of(scripts[at])) + OVERHEAD_CHARS
            if chars <= SOURCES_CHARS or not used:
                used.append(scripts[at])
            else:
                scripts[at].source = ""
    scripts[:], new_chars = reversed(used), 0


scripts.append(Name())
UNUSED = count_references(scripts[0])  # the reference count of an object that only `scripts` refers to
scripts.clear()

# --- linecache ------------------------------------------------------------------------------------

_getlines, _lazycache = linecache.getlines, linecache.lazycache


def getlines(filename, module_globals=None):
    return lines_of(filename) if type(filename) is Name else _getlines(filename, module_globals)


def lazycache(filename, module_globals):
    # A cache entry would keep the source alive.
    return False if type(filename) is Name else _lazycache(filename, module_globals)


replace(linecache, "getlines", getlines)
replace(linecache, "lazycache", lazycache)

# --- marshal --------------------------------------------------------------------------------------

_dump, _dumps = marshal.dump, marshal.dumps


PLAIN_DEPTH = 64


def plain(value, depth=0):
    """Copies a value, with a `str` in place of each `Name`. Does not copy values nested deeper than `PLAIN_DEPTH`."""
    kind = type(value)
    if kind is Name:
        return str(value)
    if depth == PLAIN_DEPTH:
        return value
    if kind is types.CodeType:
        return value.replace(co_filename=str(value.co_filename), co_consts=plain(value.co_consts, depth + 1))
    if kind is dict:
        return {plain(key, depth + 1): plain(item, depth + 1) for key, item in value.items()}
    return kind([plain(item, depth + 1) for item in value]) if kind in (tuple, list, set, frozenset) else value


def marshalled(function, value, *args, **named):
    try:
        return function(value, *args, **named)
    except ValueError:  # marshal supports no subclass of `str`
        value = plain(value)
    return function(value, *args, **named)


def dump(value, /, *args, **named):
    return marshalled(_dump, value, *args, **named)


def dumps(value, /, *args, **named):
    return marshalled(_dumps, value, *args, **named)


replace(marshal, "dump", dump)
replace(marshal, "dumps", dumps)

# --- inspect --------------------------------------------------------------------------------------

_find_source = inspect.findsource


def findsource(object):
    found = class_source(object) if isinstance(object, type) and object.__module__ == "__main__" else None
    if found is not None:
        return found
    try:
        return _find_source(object)
    except OSError:
        if not inspect.getfile(object).startswith(SOURCES + "/"):
            raise
    raise OSError("could not get source code: the image does not include the source of this library module")


replace(inspect, "findsource", findsource)


def class_source(kind):
    """Returns the lines of the script that defines a class, and the index of the first line of the definition. Returns
    `None` if no script defines the class."""
    method = next(filter(None, (method_code(kind, value) for value in vars(kind).values())), None)
    for name in [method.co_filename] if method is not None else [None, *reversed(scripts)]:
        text = source if name is None else text_of(name)  # `None` is the running script, which may have no `Name`
        line = definition(kind, text, method) if kind.__name__ in text else None
        if line:
            return quoted.lines() if name is None else lines_of(name), line - 1
    return None


def method_code(kind, value):
    """Returns the code of a method that a script of the session defines in a class."""
    value = value.fget if type(value) is property else value
    value = value.__func__ if type(value) in (classmethod, staticmethod) else value
    code = value.__code__ if type(value) is types.FunctionType else None
    is_method = type(getattr(code, "co_filename", None)) is Name and code.co_qualname.startswith(kind.__qualname__ + ".")
    return code if is_method else None


def definition(kind, text, method):
    """Returns the first line of the last definition of a class in `text`, or `None`. The definition must match the
    class's name, its first line, which CPython stores since 3.13, and the position of `method`."""
    position, found = vars(kind).get("__firstlineno__"), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own compilation has reported its warnings
            nodes = [(compile(text, "<script>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True), "")]
    except Exception:  # a script with an error
        return None
    while nodes:
        node, prefix = nodes.pop()
        if isinstance(node, ast.ClassDef):
            line = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (
                prefix + node.name == kind.__qualname__
                and position in (None, line)
                and (method is None or line <= method.co_firstlineno <= node.end_lineno)
            ):
                found = max(line, found or 0)
            prefix += node.name + "."
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            prefix += node.name + ".<locals>."
        nodes.extend((child, prefix) for child in ast.iter_child_nodes(node) if isinstance(child, BLOCKS))
    return found


BLOCKS = ast.stmt, ast.ExceptHandler, ast.match_case
