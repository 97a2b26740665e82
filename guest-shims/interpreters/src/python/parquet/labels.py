"""The index and the column labels of a DataFrame that is read from a Parquet file. Also filters its rows.

Follows pandas' metadata in the file: https://pandas.pydata.org/docs/development/developer.html
"""

import ast
import decimal
import operator
import re

import numpy as np
import pandas as pd

OPERATORS = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "in": lambda column, items: column.isin(list(items)),
    "not in": lambda column, items: ~column.isin(list(items)),
}  # fmt: skip
DTYPES = {
    "date": "M8[D]", "datetime": "M8[ns]", "unicode": "str", "string": "str", "integer": "int64",
    "floating": "float64", "empty": "object",
}  # fmt: skip


def row_index(metadata, described, levels, arrays, count):
    """Restores the index from columns (`levels`) and ranges."""
    by_name = {field.name: field for field in levels}
    found, names = [], []
    for item in metadata["index_columns"]:
        if isinstance(item, str):
            if item not in by_name:
                continue  # such a file has lost the column
            name = (described.get(item) or {}).get("name")
            if name == item and re.fullmatch(r"__index_level_\d+__", name):
                name = None
            found.append(arrays[by_name[item]])
        else:
            if item.get("kind") != "range":
                raise ValueError("invalid Parquet file: the kind of an index is unknown")
            level, name = pd.RangeIndex(item["start"], item["stop"], item["step"]), item.get("name")
            if len(level) != count:
                continue  # the rows have changed
            found.append(level)
        names.append(tuple(name) if isinstance(name, list) else name)
    if len(found) > 1:
        return pd.MultiIndex.from_arrays(found, names=names)
    return pd.Index(found[0], name=names[0]) if found else pd.RangeIndex(count)


def column_index(metadata, described, names):
    levels = metadata.get("column_indexes") or []
    wanted = [described[name]["name"] if name in described else name for name in names]
    if len(levels) > 1:
        rows = [as_tuple(name, len(levels)) for name in wanted]
        columns = [[row[at] for row in rows] for at in range(len(levels))]
        titles = [level.get("name") for level in levels]
        found = [converted(pd.Index(column), level) for column, level in zip(columns, levels)]
        return pd.MultiIndex.from_arrays(found, names=titles)
    title = levels[0].get("name") if levels else None
    index = pd.Index(wanted, name=title) if wanted else pd.Index([], dtype="str", name=title)
    return converted(index, levels[0]).rename(title) if levels else index


def as_tuple(name, size):
    """Parses the label of a column below several levels."""
    try:
        row = ast.literal_eval(name)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        row = None
    if not isinstance(row, tuple) or len(row) != size:
        raise ValueError("invalid Parquet file: a column label is damaged")
    return row


def converted(index, level):
    """Converts labels, which are texts in a file, to their original type."""
    kind, dtype = level.get("pandas_type", str(index.dtype)), level.get("numpy_type")
    if kind == "datetimetz":
        index = pd.to_datetime(index, utc=True).tz_convert(values.zone(level["metadata"]["timezone"]))
        return index.as_unit(np.datetime_data(dtype)[0])
    if kind == "bytes":
        return index.map(lambda label: label.encode())
    if kind == "decimal":
        return pd.Index([decimal.Decimal(label) for label in index])
    if index.dtype == "str" and dtype == "object" and ("mixed" in kind or kind in ("unicode", "string")):
        return index
    if "mixed" not in kind and kind != "categorical" and index.dtype != DTYPES.get(kind, kind):
        index = index.astype(DTYPES.get(kind, kind))
    if dtype is not None and index.dtype != dtype and kind != "categorical":
        index = index.astype(dtype)
    return index


def conditions(filters):
    """Returns pyarrow's `filters` as a list of alternatives, which are lists of conditions."""
    if filters is None:
        return []
    groups = filters if filters and isinstance(filters[0], list) else [filters]
    for group in groups:
        for each in group:
            if not isinstance(each, tuple) or len(each) != 3 or each[1] not in OPERATORS:
                raise ValueError(f"`filters` must consist of tuples such as ('a', '>', 1), not {each!r}")
    return groups


def selected(groups, columns):
    """Returns a mask of the rows that fulfil the conditions. Nulls fulfil only `not in`."""
    found = np.zeros(len(next(iter(columns.values()))), bool)
    for group in groups:
        mask = np.ones(len(found), bool)
        for name, comparison, value in group:
            column = columns[str(name)]
            try:
                result = OPERATORS[comparison](column, value)
                if comparison != "not in":
                    result &= column.notna()
            except TypeError as error:
                raise ValueError(f"cannot filter column {name!r}: {error}") from error
            mask &= result.fillna(False).to_numpy(bool)
        found |= mask
    return found
