"""Converts values and exceptions from and to the nodes of monty/v1/monty.proto. Runs in the guest."""

import builtins, collections, dataclasses, datetime, decimal, importlib, pathlib, struct, traceback, types, uuid

from _monty_wire import double, field, last, number, numbers, packed, parse, signed, text

HOST, SANDBOX, BUILTIN = 3, 2, 1
MAX_DEPTH = 200
"""Depth at which nested values become text. A level takes up to three of the 1,000 frames of the recursion limit."""

call_host = look_up = None
"""The functions of `guest.py`."""
sources = {}
"""The lines of snippets by name."""

EXCEPTIONS = {
    *"ArithmeticError AssertionError AttributeError BaseException Exception FileExistsError FileNotFoundError".split(),
    *"FrozenInstanceError ImportError IndexError IsADirectoryError KeyError KeyboardInterrupt LookupError".split(),
    *"MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError".split(),
    *"PermissionError RecursionError RuntimeError StopIteration SyntaxError SystemExit TimeoutError TypeError".split(),
    *"UnboundLocalError UnicodeDecodeError UnicodeEncodeError ValueError ZeroDivisionError".split(),
    *"json.JSONDecodeError tomllib.TOMLDecodeError io.UnsupportedOperation re.PatternError".split(),
    *"binascii.Error binascii.Incomplete _csv.Error".split(),
    *"decimal.DecimalException decimal.Clamped decimal.InvalidOperation decimal.ConversionSyntax".split(),
    *"decimal.DivisionByZero decimal.DivisionImpossible decimal.DivisionUndefined decimal.Inexact".split(),
    *"decimal.InvalidContext decimal.Rounded decimal.Subnormal decimal.Overflow decimal.Underflow".split(),
    "decimal.FloatOperation",
}
"""The names of exceptions in the protocol."""
MODULES = {"builtins": "", "dataclasses": ""}
MODULES |= {"json.decoder": "json.", "re._constants": "re.", "tomllib._parser": "tomllib."}
"""The prefixes of these names, by module."""
MAX_DOCUMENT = 1 << 16
"""Maximum size of an invalid JSON document that its error contains, in characters."""
TYPES = {
    each: each.__name__
    for each in (bool, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice, str, tuple, type)
}
TYPES |= {type(None): "NoneType", types.EllipsisType: "ellipsis", types.FunctionType: "function"}
TYPES |= {decimal.Decimal: "decimal.Decimal", pathlib.PosixPath: "PosixPath"}
"""The names of types in the protocol, other than those of exceptions."""
SENT_TYPES = {
    *"builtin_function_or_method callable_iterator collections.defaultdict collections.deque dict_items".split(),
    *"dict_keys dict_values functools.partial generator itertools.accumulate itertools.batched itertools.chain".split(),
    *"itertools.combinations itertools.compress itertools.count itertools.cycle itertools.dropwhile".split(),
    *"itertools.filterfalse itertools.groupby itertools.islice itertools.pairwise itertools.permutations".split(),
    *"itertools.product itertools.repeat itertools.starmap itertools.takewhile itertools.zip_longest".split(),
    *"list_iterator random.Random range_iterator re.Match re.Pattern set_iterator str_iterator tuple_iterator".split(),
    *"types.GenericAlias typing.Union".split(),
}
"""The names of other types, which clients accept but do not send."""
TYPES |= {
    each: f"datetime.{each.__name__}"
    for each in (datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)
}


class HostFunction:
    """A function of the host, with one instance per name and receiver."""

    known = {}

    def __init__(self, name, doc, receiver):
        self.__name__ = self.__qualname__ = name
        self.__doc__, self._receiver = doc, receiver

    @classmethod
    def of(cls, name, receiver=None, doc=None):
        return cls.known.setdefault((name, receiver), cls(name, doc, receiver))

    def __call__(self, *args, **kwargs):
        return call_host(self.__name__, args, kwargs, self._receiver)

    def __repr__(self):
        return f"<function '{self.__name__}' external>"


HostFunction.__name__ = "function"

identities = {}
"""The identifiers of the sandbox's own classes and instances, which the dictionary keeps alive."""
host_types = {}


def identity(value):
    return identities.setdefault(id(value), (uuid.uuid4().bytes, value))[0]


def own(key):
    """Returns a class or an instance of the sandbox."""
    for known, value in identities.values():
        if known == key:
            return value
    raise RuntimeError("invalid input type: the sandbox object no longer exists")


class HostType(type):
    """The metaclass of the host's classes."""

    def __call__(cls, *args, **kwargs):
        return call_host("__call__", args, kwargs, cls._host_id)

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return look_up(name, cls._host_id, f"type object '{cls.__name__}'")

    def __repr__(cls):
        return f"<class '{cls.__name__}'>"


class HostObject:
    """An instance of a class of the host."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return look_up(name, vars(self)["_host_id"], f"'{type(self).__name__}' object")

    def __repr__(self):
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name != "_host_id")
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other):
        if not isinstance(other, HostObject):
            return NotImplemented
        if type(self)._is_dataclass and type(self) is type(other):
            return {**vars(self), "_host_id": None} == {**vars(other), "_host_id": None}
        return vars(self)["_host_id"] == vars(other)["_host_id"]

    def __hash__(self):
        return hash(vars(self)["_host_id"])


def host_type(fields, values):
    key, name = last(parse(last(fields, 2, b"")), 1, b""), text(fields, 1)
    if key not in host_types:
        host_types[key] = HostType(name, (HostObject,), {"_host_id": key, "_is_dataclass": bool(last(fields, 4))})
    for name, value in pairs(fields, 5, values):
        setattr(host_types[key], name, value)
    return host_types[key]


def pairs(fields, at, values):
    found = []
    for each in parse(last(fields, at, b"")).get(1, ()):
        pair = parse(each)
        found.append((values[last(pair, 1)], values[last(pair, 2)]))
    return found


def exception_type(name):
    if name == "FrozenInstanceError":
        return dataclasses.FrozenInstanceError
    module, _, plain = name.rpartition(".")
    scope = importlib.import_module(module) if module and name in EXCEPTIONS else builtins
    found = getattr(scope, plain, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else RuntimeError


def built(kind, message):
    try:
        return kind() if message is None else kind(message)
    except TypeError:
        # The exception needs further arguments, such as those of `UnicodeDecodeError`.
        nearest = next(each for each in kind.__mro__ if each in (ValueError, OSError, Exception, BaseException))
        return nearest(message)


def raised_exception(data):
    fields = parse(data)
    kind, details = exception_type(text(fields, 1)), parse(last(fields, 4, b""))
    if 1 in details:
        unicode = parse(last(details, 1))
        given = last(unicode, 2) if 2 in unicode else text(unicode, 3)
        return kind(text(unicode, 1), given, last(unicode, 4), last(unicode, 5), text(unicode, 6))
    if 2 in details and 2 in parse(last(details, 2)):
        json = parse(last(details, 2))
        return kind(text(json, 1), text(json, 2), last(json, 3))
    return built(kind, text(fields, 2) if 2 in fields else None)


def zone(fields, offset, name):
    if offset not in fields:
        return None
    delta = datetime.timedelta(seconds=signed(last(fields, offset)))
    return datetime.timezone(delta, text(fields, name)) if name in fields else datetime.timezone(delta)


def decode_node(data, values):
    fields = parse(data)
    if not fields:
        raise ValueError("a value has no kind")
    kind = next(reversed(fields))
    raw = fields[kind][-1]
    inner = parse(raw) if kind in (6, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 31, 32) else {}
    if kind in (11, 12, 15, 16):
        items = [values[each] for each in numbers(inner, 1)]
        return {11: list, 12: tuple, 15: set, 16: frozenset}[kind](items)
    if kind in (1, 2, 3):
        return (..., None, NotImplemented)[kind - 1]
    if kind == 4:
        return bool(raw)
    if kind == 5:
        return raw >> 1 ^ -(raw & 1)
    if kind == 6:
        magnitude = int.from_bytes(last(inner, 2, b""), "big")
        return -magnitude if last(inner, 1) else magnitude
    if kind == 7:
        return struct.unpack("<d", raw)[0]
    if kind in (8, 27, 33):
        return {8: str, 27: pathlib.Path, 33: decimal.Decimal}[kind](raw.decode())
    if kind == 9:
        return bytes(raw)
    if kind == 13:
        names = [each.decode() for each in inner.get(2, ())]
        made = collections.namedtuple(text(inner, 1).rpartition(".")[2], names, rename=True)
        return made(*(values[each] for each in numbers(inner, 3)))
    if kind == 14:
        found = {}
        for each in inner.get(1, ()):
            pair = parse(each)
            found[values[last(pair, 1)]] = values[last(pair, 2)]
        return found
    if kind == 17:
        return datetime.date(*(last(inner, at) for at in (1, 2, 3)))
    if kind == 18:
        return datetime.time(*(last(inner, at) for at in (1, 2, 3, 4)), zone(inner, 5, 6), fold=last(inner, 7))
    if kind == 19:
        return datetime.datetime(*(last(inner, at) for at in (1, 2, 3, 4, 5, 6, 7)), zone(inner, 8, 9))
    if kind == 20:
        return datetime.timedelta(*(signed(last(inner, at)) for at in (1, 2, 3)))
    if kind == 21:
        inner.setdefault(1, [0])
        return zone(inner, 1, 2)
    if kind == 22:
        return built(exception_type(text(inner, 1)), text(inner, 2) if 2 in inner else None)
    if kind == 23:
        if last(inner, 3) == HOST:
            return host_type(inner, values)
        if last(inner, 3) == SANDBOX:
            return own(last(parse(last(inner, 2, b"")), 1, b""))
        return builtin_type(text(inner, 1))
    if kind == 24:
        known, key = values[last(inner, 1)], last(parse(last(inner, 2, b"")), 1, b"")
        if not isinstance(known, HostType):
            return own(key)
        made = object.__new__(known)
        vars(made).update(pairs(inner, 3, values), _host_id=key)
        return made
    if kind == 25:
        return HostFunction.of(text(inner, 1), None, text(inner, 2) if 2 in inner else None)
    if kind == 26:
        return getattr(builtins, raw.decode())
    if kind == 31:
        return complex(*(struct.unpack("<d", last(inner, at))[0] for at in (1, 2)))
    if kind == 32:
        made = types.ModuleType(text(inner, 1))
        made._host_id = key = last(parse(last(inner, 2, b"")), 1, b"")
        # Only packages have submodules.
        made.__path__ = []
        made.__getattr__ = lambda name: look_up(name, key, f"module '{made.__name__}'")
        vars(made).update(pairs(inner, 3, values))
        return made
    raise TypeError(f"the sandbox does not accept values of kind {kind}")


def type_name(kind):
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return TYPES.get(kind) or (name if name in SENT_TYPES else None)


def builtin_type(name):
    if name in EXCEPTIONS:
        return exception_type(name)
    for kind, known in TYPES.items():
        if known == name:
            return kind
    raise TypeError(f"the sandbox has no type {name!r}")


def decode(arena):
    values = []
    for node in parse(arena).get(2, ()):
        values.append(decode_node(node, values))
    return values


class Arena:
    """Encodes values. An object that occurs twice is one node."""

    def __init__(self):
        self.nodes, self.known, self.kept, self.open = [], {}, [], {}

    def node(self, kind, value):
        self.nodes.append(value if kind is None else field(kind, value))
        return len(self.nodes) - 1

    def encoded(self):
        return number(1, len(self.nodes)) + b"".join(field(2, each) for each in self.nodes)

    def pairs(self, items, depth):
        made = []
        for key, value in items:
            made.append(field(1, number(1, self.add(key, depth)) + number(2, self.add(value, depth))))
        return b"".join(made)

    def add(self, value, depth=0):
        if id(value) in self.open:
            return self.node(30, {list: "[...]", tuple: "(...)", dict: "{...}"}.get(type(value), "..."))
        if id(value) in self.known:
            return self.known[id(value)]
        if depth > MAX_DEPTH:
            return self.node(30, "...")
        self.open[id(value)] = True
        try:
            at = self.encode(value, depth + 1)
        finally:
            del self.open[id(value)]
        self.kept.append(value)
        self.known[id(value)] = at
        return at

    def type(self, kind):
        if id(kind) in self.known:
            return self.known[id(kind)]
        if isinstance(kind, HostType):
            key, origin, is_dataclass = kind._host_id, HOST, kind._is_dataclass
        elif kind.__module__ == "__main__":
            key, origin, is_dataclass = identity(kind), SANDBOX, dataclasses.is_dataclass(kind)
        else:
            name = exception_name(kind) if issubclass(kind, BaseException) else type_name(kind)
            return self.node(23, field(1, name) + number(3, BUILTIN)) if name else self.node(29, repr(kind))
        body = field(1, kind.__name__) + field(2, field(1, key)) + number(3, origin) + number(4, is_dataclass)
        self.known[id(kind)] = at = self.node(23, body)
        return at

    def encode(self, value, depth):
        kind = type(value)
        if value is ... or value is None or value is NotImplemented:
            return self.node(1 if value is ... else 2 if value is None else 3, b"")
        if kind is bool:
            return self.node(None, number(4, value))
        if kind is int:
            if -(1 << 63) <= value < 1 << 63:
                return self.node(None, number(5, value << 1 ^ value >> 63))
            magnitude = abs(value).to_bytes((abs(value).bit_length() + 7) // 8, "big")
            return self.node(6, number(1, value < 0) + field(2, magnitude))
        if kind is float:
            return self.node(None, double(7, value))
        if kind is complex:
            return self.node(31, double(1, value.real) + double(2, value.imag))
        if kind in (str, decimal.Decimal) or isinstance(value, pathlib.PurePath):
            return self.node({str: 8, decimal.Decimal: 33}.get(kind, 27), str(value))
        if kind in (bytes, bytearray):
            return self.node(9, bytes(value))
        if kind in (list, tuple, set, frozenset, collections.deque):
            items = [self.add(each, depth) for each in value]
            return self.node({tuple: 12, set: 15, frozenset: 16}.get(kind, 11), packed(1, items))
        names = getattr(kind, "_fields", None) or getattr(kind, "__match_args__", ())
        if isinstance(value, tuple) and len(names) == len(value):
            items = [self.add(each, depth) for each in value]
            names = b"".join(field(2, each) for each in names)
            name = kind.__name__ if kind.__module__ in ("__main__", "builtins") else f"{kind.__module__}.{kind.__name__}"
            return self.node(13, field(1, name) + names + packed(3, items))
        if isinstance(value, dict):
            return self.node(14, self.pairs(value.items(), depth))
        if isinstance(value, datetime.timedelta):
            return self.node(20, number(1, value.days) + number(2, value.seconds) + number(3, value.microseconds))
        if isinstance(value, (datetime.date, datetime.time)):
            return self.moment(value)
        if isinstance(value, datetime.timezone):
            seconds = int(value.utcoffset(None).total_seconds())
            # Only a name that was given differs from the default.
            default = datetime.timezone(value.utcoffset(None)).tzname(None)
            name = value.tzname(None)
            return self.node(21, number(1, seconds) + (field(2, name) if name != default else b""))
        if isinstance(value, BaseException):
            return self.node(22, field(1, exception_name(type(value))) + message_of(value, 2))
        if isinstance(value, type):
            return self.type(value)
        if isinstance(value, (HostFunction, types.FunctionType)):
            doc = field(2, value.__doc__) if value.__doc__ else b""
            return self.node(25, field(1, value.__name__) + doc)
        if isinstance(value, types.BuiltinFunctionType) and value.__self__ is builtins:
            return self.node(26, value.__name__)
        key = vars(value).get("_host_id") if hasattr(value, "__dict__") else None
        if isinstance(value, types.ModuleType) and key:
            shown = ((name, each) for name, each in vars(value).items() if not name.startswith("_"))
            return self.node(32, field(1, value.__name__) + field(2, field(1, key)) + field(3, self.pairs(shown, depth)))
        if hasattr(value, "__dict__") and (key or kind.__module__ == "__main__"):
            shown = [(name, each) for name, each in vars(value).items() if name != "_host_id"]
            at = self.type(kind)
            attributes = self.pairs(shown, depth)
            return self.node(24, number(1, at) + field(2, field(1, key or identity(value))) + field(3, attributes))
        return self.node(29, repr(value))

    def moment(self, value):
        zoned = b""
        offset = value.utcoffset() if not type(value) is datetime.date else None
        at = 8 if isinstance(value, datetime.datetime) else 5
        if offset is not None:
            zoned = number(at, int(offset.total_seconds()))
            name = value.tzname()
            if name and name != datetime.timezone(offset).tzname(None):
                zoned += field(at + 1, name)
        parts = [getattr(value, each) for each in ("year", "month", "day") if hasattr(value, each)]
        parts += [getattr(value, each) for each in ("hour", "minute", "second", "microsecond") if hasattr(value, each)]
        body = b"".join(number(at, each) for at, each in enumerate(parts, 1)) + zoned
        if isinstance(value, datetime.time):
            body += number(7, value.fold)
        return self.node({4: 18, 7: 19}.get(len(parts), 17), body)


def exception_name(kind):
    """Returns the protocol's name of an exception's class, or of the nearest class above it."""
    for each in kind.__mro__:
        module = MODULES.get(each.__module__, f"{each.__module__}.")
        name = module + ("PatternError" if module == "re." and each.__name__ == "error" else each.__name__)
        if name in EXCEPTIONS:
            return name
    return "BaseException"


def message_of(error, at):
    try:
        if type(error) is KeyError and len(error.args) == 1 and isinstance(error.args[0], str):
            return field(at, error.args[0])
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception as failure:
        message = f"<{type(failure).__name__} in __str__>"
    return field(at, message or "") if error.args else b""


def location(line, column):
    return number(1, max(line or 1, 1)) + number(2, max(column or 1, 1))


def frame(name, line, column, end_line, end_column, function, shown, hides_caret=False, hides_name=False):
    body = field(1, name) + field(2, location(line, column)) + field(3, location(end_line, end_column))
    body += field(4, function) if function else b""
    body += field(5, shown) if shown else b""
    return field(3, body + number(6, hides_caret) + number(7, hides_name))


def raised(error):
    frames = b""
    for each in traceback.extract_tb(error.__traceback__, limit=-200):
        if each.filename not in sources:
            continue
        shown = sources.get(each.filename, [])
        shown = shown[each.lineno - 1] if each.lineno and each.lineno <= len(shown) else ""
        start = len(shown.encode()[: each.colno or 0].decode(errors="replace")) + 1
        end = len(shown.encode()[: each.end_colno or 0].decode(errors="replace")) + 1
        # Monty underlines no `raise` statement.
        hides = shown.lstrip().startswith("raise ")
        frames += frame(each.filename, each.lineno, start, each.end_lineno, end, each.name, shown, hides)
    if isinstance(error, SyntaxError) and error.filename in sources:
        end = error.end_lineno or error.lineno, error.end_offset or error.offset
        shown = (error.text or "").rstrip("\n")
        frames += frame(error.filename, error.lineno, error.offset, *end, None, shown, hides_name=True)
    data = b""
    if isinstance(error, UnicodeError) and len(error.args) == 5:
        given = field(2 if isinstance(error.object, (bytes, bytearray)) else 3, error.object)
        data = field(1, error.encoding) + given + number(4, error.start) + number(5, error.end) + field(6, error.reason)
        data = field(4, field(1, data))
    elif type(error).__name__ == "JSONDecodeError":
        document = field(2, error.doc) if isinstance(error.doc, str) and len(error.doc) <= MAX_DOCUMENT else b""
        where = number(3, error.pos) + number(4, error.lineno) + number(5, error.colno)
        data = field(4, field(2, field(1, error.msg) + document + where))
    return field(1, exception_name(type(error))) + message_of(error, 2) + frames + data

