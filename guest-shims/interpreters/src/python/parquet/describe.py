"""The columns of a DataFrame for Parquet, with pandas' metadata as pyarrow writes it. Runs inside the guest.

`infer` is a module of this package.
"""

import pandas as pd


def table(frame, index):
    """Returns names with columns (type, values, mask) and the values of categories or `None`. Also returns metadata."""
    labels = [text_of(label) for label in frame.columns]
    if len(set(labels)) != len(labels):
        raise ValueError(f"Duplicate column names found: {labels}")
    columns, described, levels = [], [], []
    for at, label in enumerate(labels):
        add(columns, described, label, label, frame.iloc[:, at])
    if index is not False:
        for at in range(frame.index.nlevels):
            level = frame.index.get_level_values(at)
            name = None if level.name is None else text_of(level.name)
            if isinstance(frame.index, pd.RangeIndex) and index is None:
                found = frame.index
                levels.append({
                    "kind": "range", "name": name, "start": found.start, "stop": found.stop, "step": found.step
                })  # fmt: skip
                continue
            field = name if name is not None and name not in labels else f"__index_level_{at}__"
            add(columns, described, name, field, level)
            levels.append(field)
    metadata = {
        "index_columns": levels,
        "column_indexes": [] if index is False else column_levels(frame.columns),
        "columns": described,
        "attributes": {},
        "creator": {"library": "pandas", "version": pd.__version__},
        "pandas_version": pd.__version__,
    }
    return columns, metadata


def text_of(label):
    if isinstance(label, bytes):
        return label.decode()
    if isinstance(label, tuple):
        return str(tuple(map(text_of, label)))
    return str(label)


def add(columns, described, name, field, column):
    found = infer.describe(field, column)
    is_categorical = found[0][0] == "dictionary"
    columns.append((field, found, infer.describe(field, column.array.categories)[1] if is_categorical else None))
    pandas_type, numpy_type, metadata = pandas_type_of(found[0], column)
    described.append({
        "name": name, "field_name": field, "pandas_type": pandas_type, "numpy_type": numpy_type, "metadata": metadata
    })  # fmt: skip


def pandas_type_of(kind, column):
    name, dtype = kind[0], str(column.dtype)
    if name == "dictionary":
        details = {"num_categories": len(column.array.categories), "ordered": kind[2]}
        return "categorical", f"int{kind[3]}", details
    if name == "timestamp":
        if kind[2] is None:
            return "datetime", dtype, None
        return "datetimetz", f"datetime64[{kind[1]}]", {"timezone": kind[2]}
    if name == "decimal":
        return "decimal", dtype, {"precision": kind[1], "scale": kind[2]}
    return type_name(kind), dtype, None


def type_name(kind):
    name = kind[0]
    if name == "int":
        return f"{'' if kind[2] else 'u'}int{kind[1]}"
    if name == "float":
        return f"float{kind[1]}"
    if name == "list":
        return f"list[{type_name(kind[1])}]"
    names = {"string": "unicode", "binary": "bytes", "null": "empty", "struct": "object", "duration": "object"}
    return {"timestamp": "datetime"}.get(name, names.get(name, name))


def column_levels(columns):
    return [column_level(columns.get_level_values(at)) for at in range(columns.nlevels)]


def column_level(level):
    """Describes a level of the column labels, which are stored as text."""
    dtype, metadata, name = str(level.dtype), None, None if level.name is None else text_of(level.name)
    kind = pd.api.types.infer_dtype(level, skipna=True) if level.dtype == object else dtype
    if isinstance(level.dtype, pd.DatetimeTZDtype):
        kind, dtype = "datetimetz", f"datetime64[{level.dtype.unit}]"
        metadata = {"timezone": infer.zone_name(level.dtype.tz)}
    elif isinstance(level.dtype, pd.StringDtype) or kind in ("string", "empty"):
        kind, metadata = "unicode", {"encoding": "UTF-8"}
    elif isinstance(level.dtype, pd.CategoricalDtype):
        kind, dtype = "unicode", "object"
    return {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": dtype, "metadata": metadata}
