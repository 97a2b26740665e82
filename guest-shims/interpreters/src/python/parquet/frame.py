"""Reads a Parquet file into a DataFrame, as pyarrow's `to_pandas` does. Runs inside the guest, with pandas.

`thrift`, `schema`, `pages`, `encodings`, `values`, `nested`, `arrow` and `labels` are modules of this package.
"""

import io
import json
import struct

import pandas as pd

MAX_FOOTER_BYTES = 1 << 26
STRING_DTYPES = ("string", "string[python]", "string[pyarrow]")


def broken(reason):
    return ValueError(f"invalid Parquet file: {reason}")


def read_frame(file, columns=None, filters=None, dtype_backend=None):
    try:
        return Reader(file).frame(columns, filters, dtype_backend)
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error) as error:
        # Fields of the metadata are missing or have the wrong type.
        raise broken(f"the metadata is damaged ({type(error).__name__}: {error})") from error


class Reader:
    """A file with its metadata."""

    def __init__(self, file):
        if not file.seekable():
            file = io.BytesIO(file.read())
        self.file, self.size = file, file.seek(0, 2)
        footer = read_footer(file, self.size)
        metadata = thrift.Reader(footer).struct()
        self.schema = schema.read_schema(metadata[2])
        self.fields, self.leaves = self.schema.children, self.schema.leaves() if self.schema.children else []
        self.positions = {leaf: at for at, leaf in enumerate(self.leaves)}
        self.groups, self.count = metadata[4], metadata[3]
        if self.count < 0 or self.count != sum(group[3] for group in self.groups):
            raise broken("the numbers of rows differ")
        if self.fields and self.count > encodings.MAX_VALUES + pages.VALUES_PER_BYTE * self.size:
            raise broken("it has too many rows for its size")
        for group in self.groups:
            if len(group[1]) != len(self.leaves) or group[3] < 0:
                raise broken("a row group does not match the schema")
        texts = {pair[1]: pair.get(2, b"") for pair in metadata.get(5) or []}
        self.origin = arrow.read_arrow(texts[b"ARROW:schema"]) if b"ARROW:schema" in texts else None
        self.pandas = as_json(texts.get(b"pandas"))
        self.attributes = as_json(texts.get(b"PANDAS_ATTRS"))
        described = self.pandas.get("columns") or []
        self.described = {each.get("field_name") or each["name"]: each for each in described}

    def frame(self, columns, filters, dtype_backend):
        chosen = self.choose(columns)
        index = [name for name in self.pandas.get("index_columns") or [] if isinstance(name, str)]
        by_name = {field.name: field for field in reversed(self.fields)}
        levels = [by_name[name] for name in index if name in by_name]
        hidden = set(levels)
        chosen = [field for field in chosen if field not in hidden]
        wanted = list(dict.fromkeys([*chosen, *levels]))
        conditions = labels.conditions(filters)
        tested = [self.named(name, by_name) for group in conditions for name, _, _ in group]
        arrays = {field: self.read(field, dtype_backend) for field in dict.fromkeys([*wanted, *tested])}
        count = self.count
        if conditions:
            kept = labels.selected(conditions, {field.name: arrays[field] for field in tested})
            arrays = {field: column[kept].reset_index(drop=True) for field, column in arrays.items()}
            count = int(kept.sum())
        series = {at: arrays[field] for at, field in enumerate(chosen)}
        frame = pd.DataFrame(series, index=pd.RangeIndex(count), copy=False)
        if levels or self.pandas.get("index_columns"):
            frame.index = labels.row_index(self.pandas, self.described, levels, arrays, count)
        frame.columns = labels.column_index(self.pandas, self.described, [field.name for field in chosen])
        frame.attrs = self.attributes or self.pandas.get("attributes") or {}
        return frame

    def choose(self, columns):
        if columns is None:
            return self.fields
        if isinstance(columns, str):
            raise ValueError(f"`columns` must be a list of column names, not {columns!r}")
        by_name = {field.name: field for field in reversed(self.fields)}
        return list(dict.fromkeys(self.named(name, by_name) for name in columns))

    def named(self, name, by_name):
        if str(name) not in by_name:
            names = ", ".join(field.name for field in self.fields[:100])
            raise ValueError(f"the Parquet file has no column {name!r}; its columns are: {names}")
        return by_name[str(name)]

    def read(self, field, dtype_backend):
        """Returns a column as a Series."""
        described = self.described.get(field.name) or {}
        if field.children or field.optionality == schema.REPEATED:
            refine(field, (self.origin or {}).get(field.name))
            return self.as_series(nested.build(field, self.levels_reader()))
        ordered = self.category_order(field, described)
        if ordered is not None:
            return self.as_series(self.categorical(field, ordered))
        found, definitions, _ = self.leaf(field)
        valid = None if definitions is None else definitions == field.definition
        self.detail(field, described)
        dtype = wanted_dtype(field.type, described, dtype_backend)
        return self.as_series(values.to_column(field.type, found, valid, dtype))

    def as_series(self, array):
        if len(array) != self.count:
            raise broken("a column has the wrong number of rows")
        # With an explicit type, pandas does not infer another one.
        return pd.Series(array, dtype=array.dtype, copy=False)

    def leaf(self, node, categories=None):
        column = pages.Column(node, categories)
        position = self.positions[node]
        for group in self.groups:
            column.read_chunk(self.file, self.size, group[1][position], group[3])
        return column.finish()

    def levels_reader(self):
        known = {}

        def read(node):
            if node not in known:
                known[node] = self.leaf(node)
            return known[node]

        return read

    def category_order(self, field, described):
        """Returns whether the categories of a column are ordered, or `None` if it is not categorical."""
        if field.physical != schema.BYTE_ARRAY or field.type[0] not in ("string", "binary"):
            return None
        if self.origin is not None:
            detail = self.origin.get(field.name)
            return detail[1] if detail and detail[0] == "dictionary" else None
        if described.get("pandas_type") == "categorical":
            return bool((described.get("metadata") or {}).get("ordered"))
        return None

    def categorical(self, field, ordered):
        categories = pages.Categories()
        codes, definitions, _ = self.leaf(field, categories)
        if definitions is not None:
            codes = values.fill(codes, definitions == field.definition, -1)
        found = values.as_objects(list(categories.codes))
        found = pd.Index(values.to_column(field.type, found, None)) if len(found) else pd.Index([], dtype=object)
        return pd.Categorical.from_codes(codes, found, ordered=ordered)

    def detail(self, field, described):
        """Adds the time zone or the unit of a duration, which Parquet's schema lacks."""
        kind, detail = field.type, (self.origin or {}).get(field.name)
        described_type = str(described.get("numpy_type"))
        if kind[0] == "timestamp":
            zone = detail[1] if detail and detail[0] == "timestamp" else None
            if described.get("pandas_type") == "datetimetz":
                zone = (described.get("metadata") or {}).get("timezone") or zone
            if zone and (kind[2] is not None or field.physical == schema.INT96):
                field.type = ("timestamp", kind[1], zone)
        elif kind == ("int", 64, True):
            if detail and detail[0] == "duration":
                field.type = detail
            elif self.origin is None and described_type in ("timedelta64[ns]", "timedelta64[us]", "timedelta64[ms]"):
                field.type = ("duration", described_type[12:14])


def refine(node, detail):
    """Adds the time zones and the units of durations below a nested column, as far as Arrow's schema tells them."""
    if detail is None:
        return
    kind, nested_details = node.type, detail[1] if detail[0] == "nested" else []
    if node.children:
        if kind[0] in ("list", "map"):
            node = node.children[0]
        if kind[0] == "map" and nested_details:
            entries = nested_details[0]
            nested_details = entries[1] if entries is not None and entries[0] == "nested" else []
        for child, inner in zip(node.children, nested_details):
            refine(child, inner)
    elif detail[0] == "timestamp" and detail[1] and kind[0] == "timestamp":
        if kind[2] is not None or node.physical == schema.INT96:
            node.type = ("timestamp", kind[1], detail[1])
    elif detail[0] == "duration" and kind == ("int", 64, True):
        node.type = detail


def read_footer(file, size):
    file.seek(0)
    head = file.read(4)
    if isinstance(head, str):
        raise ValueError("Parquet files are binary: open the file with mode 'rb'")
    file.seek(max(0, size - 8))
    tail = file.read(8)
    if b"PARE" in (head, tail[4:]):
        raise ValueError("cannot read encrypted Parquet files")
    if size < 12 or head != b"PAR1" or tail[4:] != b"PAR1":
        raise broken("it does not start and end with the bytes 'PAR1'")
    length = int.from_bytes(tail[:4], "little")
    if length > min(size - 12, MAX_FOOTER_BYTES):
        raise broken("the metadata exceeds the file")
    file.seek(size - 8 - length)
    return file.read(length)


def as_json(text):
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def wanted_dtype(kind, described, dtype_backend):
    """Returns the dtype that pandas' metadata or the caller requires, or `None`."""
    masked = values.MASKED.get(kind)
    if dtype_backend == "numpy_nullable":
        if masked is not None:
            return pd.api.types.pandas_dtype(masked)
        if kind[0] == "string":
            return pd.StringDtype()
    name = described.get("numpy_type")
    if kind[0] == "string" and name in STRING_DTYPES:
        return pd.StringDtype()
    if masked is not None and name in values.MASKED.values():
        return pd.api.types.pandas_dtype(name) if (name == "boolean") == (masked == "boolean") else None
    return None
