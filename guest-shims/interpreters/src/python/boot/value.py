"""The value of a script's last statement, and of variables, for the host.

The last statement is compiled apart, as an expression. It is found from the end of the text, where looking costs next to
nothing; what the text alone does not settle, the parser does. Whatever is wrong with a script is reported by compiling it
whole, in the parser's own words.
"""

REPR_CHARS = 64 * 1024
JSON_BYTES = 1024 * 1024
JSON_DEPTH = 100  # parsers on the host's side stop at 128

_FUTURE = 0x1FE0000  # PyCF_MASK (Include/cpython/compile.h): what `from __future__ import` leaves in a code's flags
_NESTED = frozenset(" \t\f\r\n#)]}")  # a line that begins with one of these begins no statement
_ATTEMPTS = 6
_SCALARS = {str, int, float, bool, type(None)}
chain = itertools.chain.from_iterable

# Statements that can be told by how they begin, so that they need not be tried as expressions. Nothing here is tried in a second
# way: `+` after a repetition forbids it.
_TARGET = r"[^\W\d][\w.]*+(?:\[[^\[\]\n]*+\][\w.]*+)*+"
_STATEMENT = re.compile(
    r"((?:assert|async|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|nonlocal|pass"
    r"|raise|return|try|while|with)\b|@|(?:match|case)\b[^\n]*:[ \t]*(?:#[^\n]*)?\n)"
    rf"|(?!lambda\b){_TARGET}(?:[ ,]++{_TARGET})*+[ ]*+(?::(?!=)|(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=))"
).match


def halves(name):
    """The script as code: the statements before its value, and the expression that is its value; none for none."""
    start = source.rfind("\n", 0, -1) + 1
    if not source or source[start] in _NESTED:
        start = top_line(start - 1)
    tries = 0
    while start >= 0 and tries < _ATTEMPTS:
        tail = source[start:] if start else source
        statement = _STATEMENT(tail)
        if statement is None or start and not is_closed(tail):
            padded = lines_before(start) + tail if start else tail
            code = attempt(padded, name, "eval")
            if code is not None:
                return together(source[:start], code, padded, name) if start else (None, code)
            if not is_closed(tail) or attempt(tail, name, "exec") is None:
                start = top_line(start - 1) if is_even(tail) else opening(start)
                tries += 1
                continue
        elif statement[1]:
            break
        if ";" in tail and attempt(tail[tail.rfind(";") + 1 :].strip(), name, "eval"):
            return parsed(name)
        break
    return parsed(name) if tries == _ATTEMPTS else (compile(source, name, "exec", 0, True), None)


def is_closed(text):
    """Whether it neither ends nor begins inside brackets or long quotes, as far as counting tells."""
    count = text.count
    return (
        is_even(text)
        and count("(") == count(")")
        and count("[") == count("]")
        and count("{") == count("}")
    )


def is_even(text):
    return not (text.count('"""') % 2 or text.count("'''") % 2)


def opening(start):
    """The line of the long quotes that are open at `start`."""
    at = max(source.rfind('"""', 0, start), source.rfind("'''", 0, start))
    return -1 if at < 0 else top_line(at + 1)


def top_line(end):
    """The start of the last line before `end` that could begin a statement, -1 if there is none."""
    while end > 0:
        start = source.rfind("\n", 0, end) + 1
        if start < end and source[start] not in _NESTED:
            return start
        end = start - 1
    return -1


def lines_before(end):
    """As many empty lines, so that what is compiled apart keeps its line numbers."""
    returns = source.count("\r", 0, end)
    return "\n" * (source.count("\n", 0, end) + returns - (returns and source.count("\r\n", 0, end)))


def attempt(text, name, mode):
    """What may be compiled once more must not warn: that would be said twice."""
    try:
        if mode == "eval" and "\\" not in text:
            return compile(text, name, mode, 0, True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, name, mode, 0, True)
        return compile(text, name, mode, 0, True) if mode == "eval" else code
    except Exception:
        return None


def together(head, tail, text, name):
    """Both halves, once the head compiles too. `text` is the tail's."""
    try:
        head = compile(head, name, "exec", 0, True)
        flags = head.co_flags & _FUTURE
        return head, (compile(text, name, "eval", flags, True) if flags else tail)
    except Exception:
        pass
    return parsed(name)


def parsed(name):
    """Both halves by way of the syntax tree, which is dear and always right."""
    try:
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST, True)
        if not (tree.body and isinstance(tree.body[-1], ast.Expr)):
            return compile(tree, name, "exec", 0, True), None
        last = tree.body.pop()
        head = compile(tree, name, "exec", 0, True)
        return head, compile(ast.Expression(last.value), name, "eval", head.co_flags & _FUTURE, True)
    except Exception:
        pass
    return compile(source, name, "exec", 0, True), None


def described(value):
    """The report that carries a value. What its `repr` raises, the script raised."""
    text = repr(value)
    return reply(b"V", text if len(text) <= REPR_CHARS else clip(text, REPR_CHARS - 7), json_of(value))


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
        if not all(issubclass(kind, (str, int, float)) for kind in kinds - maps - lists - _SCALARS):
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


# Without Python code of `json`, which believes whatever a script made of the builtins.


def no_json(value):
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
