"""The globals that one execution passes to the next, as JSON."""

STATE = "_state"  # the name of a dictionary that every execution has

refused = b"E"  # the reply if the driver fails, for example without memory
state_bytes = 0  # the maximum size of the globals
names_left = None  # an iterator over the globals that the host has not requested yet

_LISTS = {list, tuple}
_HOLDERS = _LISTS | {dict}
_EXACT = _SCALARS | _HOLDERS
_MODULE = type(sys)
_name_of = type.__dict__["__name__"].__get__  # a metaclass may override `__name__`
_IMPORT = ast.ImportFrom
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


def restore_globals():
    """Sets the globals of an earlier execution. `buffer` holds the maximum size of globals in bytes, and a JSON object
    or nothing."""
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
    except BaseException:  # out of memory, or a number has too many digits
        return refused


def is_own(name):
    """Returns `True` if a global of this name is saved: a valid identifier that does not start with `_`."""
    return type(name) is str and name.isidentifier() and name[0] != "_" and not keyword.iskeyword(name)


def next_global():
    """Returns the next global: its name, and its JSON or the reason why it cannot be saved. Returns `None` after the
    last one."""
    global names_left
    try:
        if names_left is None:
            if sys.getrecursionlimit() < 500:
                sys.setrecursionlimit(1000)  # the script may have set a limit that is too low for this function
            names_left = iter(own_globals())
        for name in names_left:
            return global_of(name, namespace[name])
        return None
    except BaseException:
        return refused


def own_globals():
    """Returns the names of the script's globals, without functions, classes, modules and the image's own globals."""
    imported = imported_values() if "import" in source else {}
    own = [STATE] if STATE in namespace else []
    for name in list(namespace):
        value = namespace[name]
        if is_own(name) and kept.get(name, kept) is not value and not callable(value):
            if not issubclass(type(value), _MODULE) and imported.get(name, imported) is not value:
                own.append(name)
    return own


def imported_values():
    """Returns the values that top-level `from ... import` statements bind, if the module still has them."""
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
    except Exception:  # a syntax error
        pass
    return found


class TooLong(Exception):
    """Even the shortest possible JSON text of a global would exceed `state_bytes`."""


def global_of(name, value):
    try:
        why = "it is not a dictionary" if name == STATE and type(value) is not dict else reason_against(value)
        if why is not None:
            return reply(b"N", name, why)
        text = encode_json(value)
        return reply(b"J", name, text) if len(text.encode()) <= state_bytes else reply(b"L", name)
    except TooLong:
        return reply(b"L", name)
    except UnicodeEncodeError:
        why = "it contains a lone surrogate"
    except ValueError as error:
        why = (
            "it contains a number with too many digits"
            if "digits" in str(error)
            else "it contains a number that is not finite"
        )
    return reply(b"N", name, why)


def reason_against(value):
    """Returns the reason why JSON cannot represent a value exactly, or `None`. Accepts tuples, which become lists.
    Checks level by level, like `is_json`."""
    level, budget = [value], state_bytes // 2  # each item takes at least two bytes
    for _ in range(JSON_DEPTH + 1):
        kinds = set(map(type, level))
        if kinds <= _SCALARS:
            return None
        if not kinds <= _EXACT:
            return f"JSON cannot represent `{min(map(_name_of, kinds - _EXACT))}`"
        maps = [item for item in level if type(item) is dict] if dict in kinds else ()
        if kinds <= _LISTS:
            lists = level
        else:
            lists = [item for item in level if type(item) in _LISTS] if kinds & _LISTS else ()
        if not set(map(type, chain(maps))) <= {str}:
            return "it contains a key that is not a string"
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
    """Returns `True` if a list, tuple or dictionary contains itself at any depth. Visits each container once."""
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
    """Prints the line in `buffer` to standard error."""
    try:
        write_error(buffer.decode() + "\n")
    except BaseException:
        pass
    return None
