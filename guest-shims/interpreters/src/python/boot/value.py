"""The value of a script's last statement, and of variables, for the host.

The last statement is compiled apart. It is found from the end of the text, where looking costs next to nothing, and what is
found is believed only where both it and what stands before it are whole scripts: then together they are the script. All else
the parser settles. Whatever is wrong with a script is reported by compiling it whole, in the parser's own words.
"""

REPR_CHARS = 64 * 1024
JSON_BYTES = 1024 * 1024
JSON_DEPTH = 100  # parsers on the host's side stop at 128

_FUTURE = 0x1FE0000  # PyCF_MASK (Include/cpython/compile.h): what `from __future__ import` leaves in a code's flags
_NESTED = frozenset(" \t\n#)]}")  # a line that begins with one of these begins no statement
_ATTEMPTS = 8
_SCALARS = {str, int, float, bool, type(None)}
chain = itertools.chain.from_iterable

# The beginnings of statements that are not expressions. "clause" and "block" cannot occur inside an expression, nor can
# "simple", which has no block. "open" and "other" can, as parts of a comprehension, a call, a product. The `+` after a
# repetition prevents a second attempt at a name.
_TARGET = r"[^\W\d][\w.]*+(?:\[[^\[\]\n]*+\][\w.]*+)*+"
_STATEMENT = re.compile(
    r"(?P<clause>(?:elif|except|finally)\b|else[ ]*:)"
    r"|(?P<block>(?:class|def|try|while|with)\b)"
    r"|(?P<open>@|(?:async|for|if)\b)"
    r"|(?P<simple>(?:assert|break|continue|del|global|import|nonlocal|pass|raise|return)\b)"
    rf"|(?P<other>from\b|(?!lambda\b){_TARGET}(?:[ ,]++{_TARGET})*+[ ]*+(?::(?!=)|(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)))"
).match
# Text with closed brackets and plain strings.
_BALANCED = r"""[^()\[\]{}"'#\\]++|(?<![fFrRbBuU])(?:"[^"\\\n]*+"(?!")|'[^'\\\n]*+'(?!'))"""
for _ in range(3):
    _BALANCED = rf"(?:{_BALANCED}|\((?:{_BALANCED})*+\)|\[(?:{_BALANCED})*+\]|\{{(?:{_BALANCED})*+\}})"
_BALANCED = re.compile(rf"{_BALANCED}*+\Z").match
_CHOICE = re.compile(r"\b(?:else|lambda)\b").search
_SCOPED = "@", "async ", "class ", "def "
_ODD_ESCAPE = re.compile(r"""\\[^\n\\'"abfnrtv0-7xNuU]""").search


def halves(name):
    """The script as code: what stands before its last statement, if anything, and that statement, whose value `eval` gives.
    None instead of the latter where there is no value and the former is all."""
    text = source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source
    start = text.rfind("\n", 0, -1) + 1
    if not text or text[start] in _NESTED:
        start = top_line(text, start - 1)
    is_last = True  # no statement begins behind `start`
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
        # `global` and annotations must not contradict each other, and the future is first.
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
    """Whether a statement begins at `start` and none behind it, unless that is in long quotes, as far as the text alone tells:
    not where brackets may be open, nor where the line above may go on."""
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
    """Whether the function or class at `start` is one of those that the code makes, and no part of a text."""
    line, name = text.count("\n", 0, start) + 1, tail.split(None, 1)[1]
    for each in code.co_consts:
        if type(each) is type(code) and each.co_firstlineno == line and name.startswith(each.co_name):
            return True
    return False


def together(text, start, code, name, mode):
    """Both, once what stands before `start` compiles too. `code` is that of the rest."""
    try:
        head = compile(text[:start], name, "exec", 0, True)
        flags = head.co_flags & _FUTURE
        return head, (compile(padded(text, start), name, mode, flags, True) if flags else code)
    except Exception:
        return parsed(name)


def is_closed(text):
    """Whether it neither ends nor begins inside brackets or long quotes, as far as counting tells."""
    return (
        is_even(text)
        and text.count("(") == text.count(")")
        and text.count("[") == text.count("]")
        and text.count("{") == text.count("}")
    )


def is_even(text):
    return not (text.count('"""') % 2 or text.count("'''") % 2)


def opening(text, start):
    """The line of the long quotes that are open at `start`."""
    at = max(text.rfind('"""', 0, start), text.rfind("'''", 0, start))
    return -1 if at < 0 else top_line(text, at + 1)


def top_line(text, end):
    """The start of the last line before `end` that could begin a statement, -1 if there is none."""
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        if start < end and text[start] not in _NESTED:
            return start
        end = start - 1
    return -1


def padded(text, start):
    """What is compiled apart keeps its line numbers."""
    return "\n" * text.count("\n", 0, start) + text[start:]


def attempt(text, start, name, mode):
    """What is not kept must not warn: that would be said twice."""
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
    """Whether it is a single one, and no expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = compile(text, "", "exec", ast.PyCF_ONLY_AST, True).body
    except Exception:  # a tree takes more memory, and a deep one is refused
        return False
    return len(body) == 1 and not isinstance(body[0], ast.Expr)


def parsed(name, flags=0):
    """Both by way of the syntax tree, which is dear and always right."""
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
    """The report that carries a value, which is `shown` as well. What its `repr` raises, the script raised."""
    text = clipped_repr(value)
    if shown and type(value) not in _PLAIN:
        show_result(value, text)
    return reply(b"V", text, json_of(value))


def json_of(value):
    """The value as JSON text, if it is JSON and not too long; else nothing."""
    try:
        if is_json(value):
            text = encode_json(value)
            if len(text) <= JSON_BYTES and len(text.encode()) <= JSON_BYTES:
                return text
    except Exception:  # a number that is not finite, half a surrogate pair, a subclass with a mind of its own
        pass
    return ""


def is_json(value):
    """Whether `json` would write it as it is: of keys that are no strings it makes strings. Level by level, since that
    is far cheaper than item by item."""
    level, budget = (value,), JSON_BYTES // 2  # an item takes two bytes at least
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


# Without Python code of `json`, which trusts the builtins even if a script has changed them.


def numpy_scalars():
    """numpy's types of single values; none unless it is imported."""
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
        raise ValueError("that is not JSON")
    return value


JSON_SPACE = " \t\n\r"
make_encoder, encode_text = json.encoder.c_make_encoder, json.encoder.c_encode_basestring
scan_json = json.JSONDecoder().scan_once


def get_variable():
    """The global that `buffer` names; none where there is no such."""
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
    """Sets a global: `buffer` holds its name and JSON."""
    try:
        name, text = fields()
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{clip(name, NAME_CHARS)!r} is no name for a variable")
        namespace[name] = decode_json(text)
        return None
    except BaseException as error:
        return failed(error, None, True)
