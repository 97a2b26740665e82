"""The Arrow schema that pyarrow stores in Parquet files under `ARROW:schema`. Runs inside the guest.

It tells what Parquet's own schema cannot express: time zones, durations and categorical columns. Its format is a
FlatBuffers message in Base64 (Arrow's Schema.fbs and Message.fbs).
"""

import base64
import struct

UNITS = ["s", "ms", "us", "ns"]
NULL, INT, FLOAT, BINARY, UTF8, BOOL, DECIMAL, DATE, TIME, TIMESTAMP, _, LIST, STRUCT = range(1, 14)
FIXED_BINARY, FIXED_LIST, MAP, DURATION, LARGE_UTF8, LARGE_LIST = 15, 16, 17, 18, 20, 21
SCHEMA = 1  # the type of the message
VERSION_5 = 4
MAX_DEPTH = 32
MAX_FIELDS = 100_000
MAX_TEXT_BYTES = 1 << 14  # many fields can share one text


class Table:
    """A FlatBuffers table: fields by number."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        self.index = at - struct.unpack_from("<i", data, at)[0]
        if self.index < 0:
            raise ValueError("invalid Arrow schema")
        self.size = struct.unpack_from("<H", data, self.index)[0]

    def place(self, number):
        entry = 4 + 2 * number
        offset = struct.unpack_from("<H", self.data, self.index + entry)[0] if entry < self.size else 0
        return self.at + offset if offset else None

    def scalar(self, number, kind, default=0):
        at = self.place(number)
        return default if at is None else struct.unpack_from(kind, self.data, at)[0]

    def target(self, number):
        at = self.place(number)
        return None if at is None else at + struct.unpack_from("<I", self.data, at)[0]

    def table(self, number):
        at = self.target(number)
        return None if at is None else Table(self.data, at)

    def text(self, number):
        at = self.target(number)
        if at is None:
            return None
        size = struct.unpack_from("<I", self.data, at)[0]
        if size > MAX_TEXT_BYTES:
            raise ValueError("invalid Arrow schema")
        return self.data[at + 4 : at + 4 + size].decode()

    def tables(self, number):
        at = self.target(number)
        count = 0 if at is None else struct.unpack_from("<I", self.data, at)[0]
        if count > MAX_FIELDS:
            raise ValueError("invalid Arrow schema")
        for item in range(at + 4, at + 4 + 4 * count, 4) if count else ():
            yield Table(self.data, item + struct.unpack_from("<I", self.data, item)[0])


def read_arrow(text):
    """Returns, by column, what Parquet's schema lacks (see `field_type`). Returns `None` if the schema is damaged."""
    try:
        data = base64.b64decode(text)
        at = 8 if data[:4] == b"\xff" * 4 else 4
        data = data[at:]
        schema = Table(data, struct.unpack_from("<I", data)[0]).table(2)
        budget = iter(range(MAX_FIELDS))
        return {field.text(0): field_type(field, budget) for field in schema.tables(1)}
    except (struct.error, ValueError, AttributeError, OverflowError):
        return None


def field_type(field, budget, depth=0):
    """Returns `(name, detail)`, or `("nested", types)` for a field with children, or `None`."""
    # Fields can share children, so a small schema could expand to any size.
    if next(budget, None) is None or depth > MAX_DEPTH:
        raise ValueError("invalid Arrow schema")
    dictionary = field.table(4)
    if dictionary is not None:
        return ("dictionary", bool(dictionary.scalar(2, "<B")))
    kind, details = field.scalar(2, "<B"), field.table(3)
    if kind == TIMESTAMP:
        return ("timestamp", details.text(1))
    if kind == DURATION:
        return ("duration", UNITS[details.scalar(0, "<h", 1) & 3])
    if kind in (LIST, LARGE_LIST, FIXED_LIST, MAP, STRUCT):
        return ("nested", [field_type(child, budget, depth + 1) for child in field.tables(5)])
    return None


def write_arrow(fields, texts):
    """Encodes a schema. `fields` are names with types, as in `infer`. pyarrow reads the metadata (`texts`) only from
    here."""
    pairs = [[(0, key), (1, text)] for key, text in texts.items()]
    columns = [write_field(name, kind, number) for number, (name, kind) in enumerate(fields)]
    schema = [(1, columns or EMPTY), (2, pairs or EMPTY)]
    message = [(0, ("<h", VERSION_5)), (1, ("<B", SCHEMA)), (2, schema), (3, ("<q", 0))]
    out = bytearray(4)
    out[:4] = struct.pack("<I", place(out, message))
    out += bytes(-len(out) % 8)
    return base64.b64encode(b"\xff" * 4 + struct.pack("<I", len(out)) + out)


def write_field(name, kind, number=0):
    """Returns a field as a table: a list of pairs of field number and value. A value is a scalar with its format, a
    text, another table, or a list of tables. `number` identifies the dictionary of a categorical column."""
    dictionary, children = None, []
    if kind[0] == "dictionary":
        index = [(0, ("<i", kind[3])), (1, ("<B", 1))]
        dictionary = [(0, ("<q", number)), (1, index), (2, ("<B", int(kind[2])))]
        kind = kind[1]
    type_, details = write_type(kind)
    if kind[0] == "list":
        children = [write_field("element", kind[1])]
    elif kind[0] == "struct":
        children = [write_field(child, inner) for child, inner in kind[1]]
    field = [(0, name), (1, ("<B", 1)), (2, ("<B", type_)), (3, details)]
    if dictionary is not None:
        field.append((4, dictionary))
    return [*field, (5, children or EMPTY)]


EMPTY = ()


def write_type(kind):
    name = kind[0]
    if name == "int":
        return INT, [(0, ("<i", kind[1])), (1, ("<B", int(kind[2])))]
    if name == "float":
        return FLOAT, [(0, ("<h", {32: 1, 64: 2}[kind[1]]))]
    if name == "float16":
        return FLOAT, [(0, ("<h", 0))]
    if name == "decimal":
        return DECIMAL, [(0, ("<i", kind[1])), (1, ("<i", kind[2])), (2, ("<i", 128 if kind[1] <= 38 else 256))]
    if name == "date":
        return DATE, [(0, ("<h", 0))]
    if name == "time":
        return TIME, [(0, ("<h", UNITS.index(kind[1]))), (1, ("<i", 64))]
    if name == "timestamp":
        unit = (0, ("<h", UNITS.index(kind[1])))
        return TIMESTAMP, [unit] if kind[2] is None else [unit, (1, kind[2])]
    if name == "duration":
        return DURATION, [(0, ("<h", UNITS.index(kind[1])))]
    names = {"null": NULL, "binary": BINARY, "string": UTF8, "bool": BOOL, "list": LIST, "struct": STRUCT}
    return names[name], []


def place(out, item):
    """Appends an item and everything that it refers to. Returns its position. References only point forwards."""
    if isinstance(item, str):
        data = item.encode()
        out += bytes(-len(out) % 4)
        at = len(out)
        out += struct.pack("<I", len(data)) + data + b"\0"
        return at
    if isinstance(item, tuple) or item and isinstance(item[0], list):
        return place_vector(out, item)
    return place_table(out, item)


def place_vector(out, items):
    out += bytes(-len(out) % 4)
    at = len(out)
    out += struct.pack("<I", len(items)) + bytes(4 * len(items))
    for index, item in enumerate(items):
        entry = at + 4 + 4 * index
        out[entry : entry + 4] = struct.pack("<I", place(out, item) - entry)
    return at


def place_table(out, fields):
    # The widest scalars come first, so that each is aligned.
    scalars = [(number, *value) for number, value in fields if isinstance(value, tuple) and value]
    links = [(number, value) for number, value in fields if not (isinstance(value, tuple) and value)]
    scalars.sort(key=lambda scalar: -struct.calcsize(scalar[1]))
    body, offsets = bytearray(4), {}
    if scalars and struct.calcsize(scalars[0][1]) == 8:
        body += bytes(4)
    for number, kind, value in scalars:
        if struct.calcsize(kind) < 4 and links:
            break
        offsets[number] = len(body)
        body += struct.pack(kind, value)
    for number, _ in links:
        offsets[number] = len(body)
        body += bytes(4)
    for number, kind, value in scalars:
        if number not in offsets:
            offsets[number] = len(body)
            body += struct.pack(kind, value)
    count = max(offsets, default=-1) + 1
    out += bytes(-len(out) % 2)
    index = len(out)
    out += struct.pack("<HH", 4 + 2 * count, len(body))
    out += b"".join(struct.pack("<H", offsets.get(number, 0)) for number in range(count))
    out += bytes(-len(out) % 8)
    at = len(out)
    body[:4] = struct.pack("<i", at - index)
    out += body
    for number, value in links:
        entry = at + offsets[number]
        out[entry : entry + 4] = struct.pack("<I", place(out, value) - entry)
    return at
