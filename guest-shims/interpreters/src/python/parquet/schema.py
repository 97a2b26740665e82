"""The schema of a Parquet file as a tree. Runs inside the guest."""

MAX_DEPTH = 32

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
REQUIRED, OPTIONAL, REPEATED = range(3)
UNITS = {1: "ms", 2: "us", 3: "ns"}

# The meanings of values. A type is a tuple that starts with one of these names.
_CONVERTED = {
    0: ("string",), 1: ("map",), 2: ("map",), 3: ("list",), 4: ("binary",), 6: ("date",), 7: ("time", "ms"),
    8: ("time", "us"), 9: ("timestamp", "ms", "UTC"), 10: ("timestamp", "us", "UTC"), 11: ("int", 8, False),
    12: ("int", 16, False), 13: ("int", 32, False), 14: ("int", 64, False), 15: ("int", 8, True),
    16: ("int", 16, True), 17: ("int", 32, True), 18: ("int", 64, True), 19: ("json",), 20: ("binary",),
}  # fmt: skip
_PHYSICAL = {
    BOOLEAN: ("bool",), INT32: ("int", 32, True), INT64: ("int", 64, True), INT96: ("timestamp", "ns", None),
    FLOAT: ("float", 32), DOUBLE: ("float", 64), BYTE_ARRAY: ("binary",), FIXED: ("binary",),
}  # fmt: skip
# The physical types that each meaning allows.
_ALLOWED = {
    "string": (BYTE_ARRAY,), "json": (BYTE_ARRAY,), "date": (INT32,), "decimal": (INT32, INT64, BYTE_ARRAY, FIXED),
    "uuid": (FIXED,), "float16": (FIXED,), "binary": (BYTE_ARRAY, FIXED), "null": range(8), "duration": (INT64,),
}  # fmt: skip


class Node:
    """A column, or a group of columns. `definition` and `repetition` are the highest levels of its values."""

    def __init__(self, element, parent=None):
        name, self.optionality = element.get(4, b""), element.get(3, REQUIRED)
        if not isinstance(name, bytes) or self.optionality not in (REQUIRED, OPTIONAL, REPEATED):
            raise broken()
        self.name = name.decode("utf-8", "replace")
        self.children, self.physical, self.size = [], element.get(1), element.get(2, 0)
        self.definition, self.repetition, self.path = 0, 0, ()
        if parent is not None:
            self.definition = parent.definition + (self.optionality != REQUIRED)
            self.repetition = parent.repetition + (self.optionality == REPEATED)
            self.path = (*parent.path, self.name)
        self.type = logical_type(element)

    @property
    def label(self):
        return ".".join(self.path)

    def leaves(self):
        return [leaf for child in self.children for leaf in child.leaves()] if self.children else [self]


def broken():
    return ValueError("invalid Parquet file: the schema is damaged")


def read_schema(elements):
    if not isinstance(elements, list) or not elements:
        raise broken()
    position = 0

    def read(parent, depth):
        nonlocal position
        if position >= len(elements) or depth > MAX_DEPTH or not isinstance(elements[position], dict):
            raise broken()
        element = elements[position]
        position += 1
        node = Node(element, parent)
        count = element.get(5)
        if count or parent is None or node.physical is None:
            if not isinstance(count or 0, int) or not 0 <= (count or 0) <= len(elements):
                raise broken()
            node.children = [read(node, depth + 1) for _ in range(count or 0)]
            if not node.children and parent is not None:
                raise ValueError(f"cannot read column {node.label!r}: a group without fields is not supported")
        else:
            check(node)
        return node

    return read(None, 0)


def check(node):
    """Checks that the type fits the physical type."""
    kind = node.type[0]
    if node.physical not in range(8) or not isinstance(node.size, int):
        raise broken()
    if node.physical == FIXED and not 0 < node.size <= 1 << 20:
        raise broken()
    allowed = _ALLOWED.get(kind)
    if kind in ("time", "timestamp", "int") and node.physical != INT96:
        bits = node.type[1] if kind == "int" else 0
        allowed = (INT64,) if bits == 64 else (INT32,) if bits or node.type[1] == "ms" and kind == "time" else (INT64,)
    if allowed is not None and node.physical not in allowed:
        raise broken()
    if kind in ("list", "map") or kind == "uuid" and node.size != 16 or kind == "float16" and node.size != 2:
        raise broken()
    if kind == "decimal" and not 0 <= node.type[2] <= node.type[1] <= 76:
        raise ValueError(f"cannot read column {node.label!r}: its precision or scale is not supported")


def logical_type(element):
    logical, converted = element.get(10), element.get(6)
    if isinstance(logical, dict) and len(logical) == 1:
        number, details = next(iter(logical.items()))
        found = from_logical(number, details if isinstance(details, dict) else {})
        if found is not None:
            return found
    if converted == 5:
        return ("decimal", whole(element.get(8, 0)), whole(element.get(7, 0)))
    if converted in _CONVERTED:
        return _CONVERTED[converted]
    if element.get(1) is None:
        return ("struct",)
    if element.get(1) not in _PHYSICAL:
        raise broken()
    return _PHYSICAL[element[1]]


def from_logical(number, details):
    if number in (1, 2, 3, 4, 6, 11, 12, 13, 14, 15):
        names = {1: "string", 2: "map", 3: "list", 6: "date", 11: "null", 12: "json", 14: "uuid", 15: "float16"}
        return (names.get(number, "binary"),)
    if number == 5:
        return ("decimal", whole(details.get(2, 0)), whole(details.get(1, 0)))
    if number in (7, 8):
        unit = details.get(2)
        unit = UNITS.get(next(iter(unit), None)) if isinstance(unit, dict) else None
        if unit is None:
            raise broken()
        return ("time", unit) if number == 7 else ("timestamp", unit, "UTC" if details.get(1) else None)
    if number == 10:
        if details.get(1) not in (8, 16, 32, 64):
            raise broken()
        return ("int", details[1], bool(details.get(2)))
    return None


def whole(value):
    if not isinstance(value, int):
        raise broken()
    return value
