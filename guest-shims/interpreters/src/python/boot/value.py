"""Reports the values of a script's last statement and of variables to the host.

The last statement is compiled separately. A cheap search from the end of the text finds its start. The result is used
only if the parts before and after this position both compile. Otherwise, the syntax tree shows the last statement. A
script with an error is compiled as a whole, so that CPython's own message is reported.
"""

REPR_CHARS = 64 * 1024
JSON_BYTES = 1024 * 1024
JSON_DEPTH = 100  # the host's parsers allow at most 127 levels

_FUTURE = 0x1FE0000  # PyCF_MASK (Include/cpython/compile.h): the flags that `from __future__ import` sets in code
_NESTED = frozenset(" \t\n#)]}")  # a line that starts with one of these does not start a statement
_ATTEMPTS = 8
_SCALARS = {str, int, float, bool, type(None)}
chain = itertools.chain.from_iterable

# Matches the start of a statement that is not an expression. Text that matches "clause", "block" or "simple" cannot be
# part of an expression; "open" and "other" can, in a comprehension, a call or a product. A "simple" statement has no
# block. The `+` after a repetition prevents backtracking.
_TARGET = r"[^\W\d][\w.]*+(?:\[[^\[\]\n]*+\][\w.]*+)*+"
_STATEMENT = re.compile(
    r"(?P<clause>(?:elif|except|finally)\b|else[ ]*:)"
    r"|(?P<block>(?:class|def|try|while|with)\b)"
    r"|(?P<open>@|(?:async|for|if)\b)"
    r"|(?P<simple>(?:assert|break|continue|del|global|import|nonlocal|pass|raise|return)\b)"
    rf"|(?P<other>from\b|(?!lambda\b){_TARGET}(?:[ ,]++{_TARGET})*+[ ]*+(?::(?!=)|(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)))"
).match
# Matches text with balanced brackets and plain strings.
_BALANCED = r"""[^()\[\]{}"'#\\]++|(?<![fFrRbBuU])(?:"[^"\\\n]*+"(?!")|'[^'\\\n]*+'(?!'))"""
for _ in range(3):
    _BALANCED = rf"(?:{_BALANCED}|\((?:{_BALANCED})*+\)|\[(?:{_BALANCED})*+\]|\{{(?:{_BALANCED})*+\}})"
_BALANCED = re.compile(rf"{_BALANCED}*+\Z").match
_CHOICE = re.compile(r"\b(?:else|lambda)\b").search
_SCOPED = "@", "async ", "class ", "def "
_ODD_ESCAPE = re.compile(r"""\\[^\n\\'"abfnrtv0-7xNuU]""").search


def halves(name):
    """Compiles the script in two parts: the code before the last statement, or `None`, and the last statement for
    `eval`. The second part is `None` if the script has no value; the first part is then the whole script."""
    text = source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source
    start = text.rfind("\n", 0, -1) + 1
    if not text or text[start] in _NESTED:
        start = top_line(text, start - 1)
    is_last = True  # no statement starts after `start`
    for _ in range(_ATTEMPTS):
        if start < 0:
            break
        tail = text[start:] if start else text
        statement = _STATEMENT(tail)
        if statement is None:
            kind = None
            code = attempt(text, start, name, "eval")
            if code is not None:
                return together(text, start, code, name, "eval") if start else (None, code)
        else:
            kind = statement.lastgroup
            if is_last and is_certain(text, start, tail, kind):
                code = compile(source, name, "exec", 0, True)
                if not may_be_quoted(text, start, tail) or defines(code, text, start, tail):
                    return code, None
        above = top_line(text, start - 1)
        if not is_closed(tail):
            start, is_last = above if is_even(tail) else opening(text, start), False
            continue
        if kind == "clause" or kind in _BLOCKS and above >= 0 and text[above] == "@":
            start = above
            continue
        code = attempt(text, start, name, "exec")
        if code is None:
            start = above
            continue
        # The rest can be compiled separately only without `global`, which conflicts with annotations, and without
        # `from __future__`, which must come first.
        if kind not in _BLOCKS and (";" in tail or "__future__" in tail):
            break
        if not tail.startswith(_SCOPED) and "global" in text:
            break
        if (kind is None or not is_last) and not is_statement(tail):
            break
        return together(text, start, code, name, "exec") if start else (None, code)
    return parsed(name) if source else (compile(source, name, "exec", 0, True), None)


_BLOCKS = "block", "open"


def is_certain(text, start, tail, kind):
    """Returns `True` if the text alone shows that the last statement starts at `start`, unless `start` is inside a
    triple-quoted string. Returns `False` if brackets may be open, or if the previous line may continue."""
    if not start and kind in ("simple", "other"):
        return ";" not in tail
    if kind == "open":
        line = tail.partition("\n")[0]
        if line[0] == "@" or not line.endswith(":") or _CHOICE(line) or not _BALANCED(line):
            return False
    elif kind == "other" and not _BALANCED(tail) or kind in ("simple", "other") and ";" in tail:
        return False
    if start > 1 and text[start - 2] == "\\":
        return False
    return not may_be_quoted(text, start, tail) or tail.startswith(("class ", "def "))


def may_be_quoted(text, start, tail):
    return '"""' in tail and text.find('"""', 0, start) >= 0 or "'''" in tail and text.find("'''", 0, start) >= 0


def defines(code, text, start, tail):
    """Returns `True` if the code defines the function or class at `start`. Otherwise, `start` is inside a string."""
    line, name = text.count("\n", 0, start) + 1, tail.split(None, 1)[1]
    for each in code.co_consts:
        if type(each) is type(code) and each.co_firstlineno == line and name.startswith(each.co_name):
            return True
    return False


def together(text, start, code, name, mode):
    """Returns both parts. `code` is the second one. Falls back to `parsed` if the first one does not compile."""
    try:
        head = compile(text[:start], name, "exec", 0, True)
        flags = head.co_flags & _FUTURE
        return head, (compile(padded(text, start), name, mode, flags, True) if flags else code)
    except Exception:
        return parsed(name)


def is_closed(text):
    """Returns `True` if the text has as many closing as opening brackets, and an even number of triple quotes."""
    return (
        is_even(text)
        and text.count("(") == text.count(")")
        and text.count("[") == text.count("]")
        and text.count("{") == text.count("}")
    )


def is_even(text):
    return not (text.count('"""') % 2 or text.count("'''") % 2)


def opening(text, start):
    """Returns the start of the line with the triple quotes that are open at `start`."""
    at = max(text.rfind('"""', 0, start), text.rfind("'''", 0, start))
    return -1 if at < 0 else top_line(text, at + 1)


def top_line(text, end):
    """Returns the start of the last line before `end` that could start a statement, or -1."""
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        if start < end and text[start] not in _NESTED:
            return start
        end = start - 1
    return -1


def padded(text, start):
    """Returns the text from `start`, with its line numbers preserved by newlines."""
    return "\n" * text.count("\n", 0, start) + text[start:]


def attempt(text, start, name, mode):
    """Compiles the text from `start`, or returns `None`. If the text could cause a syntax warning, compiles it without
    warnings first, so that a failed attempt does not print warnings twice."""
    if start:
        text = padded(text, start)
    try:
        if "\\" in text and _ODD_ESCAPE(text):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, name, mode, 0, True)
        return compile(text, name, mode, 0, True)
    except Exception:
        return None


def is_statement(text):
    """Returns `True` if the text is a single statement that is not an expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = compile(text, "", "exec", ast.PyCF_ONLY_AST, True).body
    except Exception:  # out of memory, or the tree is too deep
        return False
    return len(body) == 1 and not isinstance(body[0], ast.Expr)


def parsed(name, flags=0):
    """Compiles both parts from the syntax tree, which is expensive but always correct."""
    try:
        tree = compile(source, name, "exec", flags | ast.PyCF_ONLY_AST, True)
        if not (tree.body and isinstance(tree.body[-1], ast.Expr)):
            return compile(tree, name, "exec", flags, True), None
        last = tree.body.pop()
        head = compile(tree, name, "exec", flags, True)
        return head, compile(ast.Expression(last.value), name, "eval", flags | head.co_flags & _FUTURE, True)
    except Exception:
        pass
    return compile(source, name, "exec", flags, True), None


def described(value, shown=False):
    """Builds the report of a value, and displays the value if `shown`. An exception in its `repr` counts as the
    script's."""
    text = clipped_repr(value)
    if shown and type(value) not in _PLAIN:
        show_result(value, text)
    return reply(b"V", text, json_of(value))


def json_of(value):
    """Returns the value as JSON text, or "" if JSON cannot represent it or the text is too long."""
    try:
        if is_json(value):
            text = encode_json(value)
            if len(text) <= JSON_BYTES and len(text.encode()) <= JSON_BYTES:
                return text
    except Exception:  # a number that is not finite, a lone surrogate, or a subclass that raises
        pass
    return ""


def is_json(value):
    """Returns `True` if JSON represents the value exactly. Rejects keys that are not strings, which `json` would
    convert. Checks level by level, which is much faster than item by item."""
    level, budget = (value,), JSON_BYTES // 2  # each item takes at least two bytes
    for _ in range(JSON_DEPTH):
        kinds = set(map(type, level))
        if kinds <= _SCALARS:
            return True
        maps = {kind for kind in kinds if issubclass(kind, dict)}
        lists = {kind for kind in kinds if issubclass(kind, (list, tuple))}
        if not all(issubclass(kind, (str, int, float, *numpy_scalars())) for kind in kinds - maps - lists - _SCALARS):
            return False
        maps = [item for item in level if type(item) in maps] if maps else ()
        lists = [item for item in level if type(item) in lists] if lists else ()
        if not all(issubclass(kind, str) for kind in set(map(type, chain(maps)))):
            return False
        budget -= sum(map(len, maps)) + sum(map(len, lists))
        if budget < 0:
            return False
        level = [*chain(map(dict.values, maps)), *chain(lists)]
    return False


# The following functions call the C code of `json`: its Python code uses builtins that a script may have changed.


def numpy_scalars():
    """Returns numpy's base type of scalars if numpy is imported, else an empty tuple."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else (numpy.generic,)


def no_json(value):
    if isinstance(value, numpy_scalars()) and value.dtype.kind in "biuf":
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def encode_json(value):
    return "".join(make_encoder({}, no_json, encode_text, None, ":", ",", False, False, False)(value, 0))


def decode_json(text):
    try:
        value, end = scan_json(text, len(text) - len(text.lstrip(JSON_SPACE)))
    except StopIteration:
        end = -1
    if end < 0 or text[end:].strip(JSON_SPACE):
        raise ValueError("the text is not JSON")
    return value


JSON_SPACE = " \t\n\r"
make_encoder, encode_text = json.encoder.c_make_encoder, json.encoder.c_encode_basestring
scan_json = json.JSONDecoder().scan_once


def get_variable():
    """Reports the global whose name is in `buffer`, or returns `None`."""
    result = None
    try:
        name = buffer.decode()
        if name.isidentifier() and name in namespace:
            result = described(namespace[name])
    except BaseException as error:
        result = failed(error, None, True)
    restore_streams()
    return result


def set_variable():
    """Sets a global to a value. `buffer` holds the global's name and the value as JSON."""
    try:
        name, text = fields()
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"{clip(name, NAME_CHARS)!r} is not a valid variable name; use an identifier, not a keyword"
            )
        namespace[name] = decode_json(text)
        return None
    except BaseException as error:
        return failed(error, None, True)
