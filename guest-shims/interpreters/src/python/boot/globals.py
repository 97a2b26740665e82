"""The globals that one execution leaves to the next, as JSON."""

STATE = "_state"  # the dictionary that is always there

refused = b"E"  # when not even the reason can be said
state_bytes = 0  # how many they may take
names_left = None  # an iterator over the globals that the host has not asked for yet

_LISTS = {list, tuple}
_HOLDERS = _LISTS | {dict}
_EXACT = _SCALARS | _HOLDERS
_MODULE = type(sys)
_name_of = type.__dict__["__name__"].__get__  # a metaclass may have a `__name__` of its own
_IMPORT = ast.ImportFrom
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


def restore_globals():
    """`buffer` holds how many bytes globals may take, and the text of a JSON object or nothing."""
    global state_bytes, names_left
    names_left = None
    try:
        namespace[STATE] = {}
        most, text = fields()
        state_bytes = int(most)
        for name, value in decode_json(text).items() if text else ():
            if is_own(name) or name == STATE and type(value) is dict:
                namespace[name] = value
        return None
    except BaseException:  # no memory, or a number that is too long for Python
        return refused


def is_own(name):
    """Whether it is a name for state, and not one that begins with `_`."""
    return type(name) is str and name.isidentifier() and name[0] != "_" and not keyword.iskeyword(name)


def next_global():
    """The name of a global, and its JSON or why there is none. Nothing behind the last one."""
    global names_left
    try:
        if names_left is None:
            if sys.getrecursionlimit() < 500:
                sys.setrecursionlimit(1000)  # or the script's own limit ends this too
            names_left = iter(own_globals())
        for name in names_left:
            return global_of(name, namespace[name])
        return None
    except BaseException:
        return refused


def own_globals():
    """The names of what the script made that is no code, and neither the image's."""
    imported = imported_values() if "import" in source else {}
    own = [STATE] if STATE in namespace else []
    for name in list(namespace):
        value = namespace[name]
        if is_own(name) and kept.get(name, kept) is not value and not callable(value):
            if not issubclass(type(value), _MODULE) and imported.get(name, imported) is not value:
                own.append(name)
    return own


def imported_values():
    """What `from ... import` brings to the top of the script, as long as its module has it."""
    found = {}
    try:
        blocks = [compile(source, "", "exec", ast.PyCF_ONLY_AST, True).body]
        while blocks:
            for node in blocks.pop():
                if type(node) is _IMPORT and node.module in sys.modules:
                    values = sys.modules[node.module].__dict__
                    for alias in node.names:
                        if alias.name == "*":
                            found.update(values)
                        elif alias.name in values:
                            found[alias.asname or alias.name] = values[alias.name]
                elif type(node) not in _SCOPES:
                    parts = map(node.__dict__.get, ("body", "orelse", "finalbody", "handlers", "cases"))
                    blocks += [part for part in parts if type(part) is list]
    except Exception:  # not even its syntax is right
        pass
    return found


class TooLong(Exception):
    """More text than `state_bytes`, whatever the items are."""


def global_of(name, value):
    try:
        why = "it is no dictionary" if name == STATE and type(value) is not dict else reason_against(value)
        if why is not None:
            return reply(b"N", name, why)
        text = encode_json(value)
        return reply(b"J", name, text) if len(text.encode()) <= state_bytes else reply(b"L", name)
    except TooLong:
        return reply(b"L", name)
    except UnicodeEncodeError:
        why = "a string in it has half a character"
    except ValueError as error:
        why = "a number in it has too many digits" if "digits" in str(error) else "a number in it is not finite"
    return reply(b"N", name, why)


def reason_against(value):
    """Why a value is not what `json` would bring back, or brings back as a list. Level by level, as in `is_json`."""
    level, budget = [value], state_bytes // 2  # an item takes two bytes at least
    for _ in range(JSON_DEPTH + 1):
        kinds = set(map(type, level))
        if kinds <= _SCALARS:
            return None
        if not kinds <= _EXACT:
            return f"JSON has no `{min(map(_name_of, kinds - _EXACT))}`"
        maps = [item for item in level if type(item) is dict] if dict in kinds else ()
        if kinds <= _LISTS:
            lists = level
        else:
            lists = [item for item in level if type(item) in _LISTS] if kinds & _LISTS else ()
        if not set(map(type, chain(maps))) <= {str}:
            return "a key in it is no string"
        budget -= sum(map(len, maps)) + sum(map(len, lists))
        if budget < 0:
            break
        level = [*chain(map(dict.values, maps)), *chain(lists)]
    if contains_itself(value):
        return "it contains itself"
    if budget < 0:
        raise TooLong
    return f"it is nested more than {JSON_DEPTH} levels deep"


def contains_itself(value):
    """Whether a list, tuple or dictionary is among what it holds. Looks at each once, however often it is held."""
    path, above, done = [(value, items_of(value))], {id(value)}, set()
    while path:
        holder, rest = path[-1]
        for item in rest:
            if type(item) not in _HOLDERS or id(item) in done:
                continue
            if id(item) in above:
                return True
            above.add(id(item))
            path.append((item, items_of(item)))
            break
        else:
            path.pop()
            above.discard(id(holder))
            done.add(id(holder))
    return False


def items_of(value):
    return iter(value.values() if type(value) is dict else value)


def complain():
    """Prints the line in `buffer`."""
    try:
        write_error(buffer.decode() + "\n")
    except BaseException:
        pass
    return None
