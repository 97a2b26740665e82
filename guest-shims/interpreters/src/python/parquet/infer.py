"""Finds the Parquet types of pandas' columns, as pyarrow's `Table.from_pandas` does. Runs inside the guest.

A column is a type, an array of all its values and a mask of the valid ones (`None` if all are valid). Types are tuples
as in `schema`, and `("list", type)`, `("struct", [(name, type)])` and `("dictionary", type, is_ordered, bits)`.
"""

import datetime
import decimal
import itertools

import numpy as np
import pandas as pd

MAX_DEPTH = 32


def describe(name, column):
    """Returns type, values and mask of a Series or an Index."""
    dtype, array = column.dtype, column.array
    if isinstance(dtype, pd.CategoricalDtype):
        codes = np.asarray(array.codes)
        kind, _, valid = describe(name, array.categories)
        if kind[0] in ("list", "struct") or valid is not None:
            raise unsupported(name, "its categories cannot be stored")
        kind = ("string",) if kind[0] == "null" else kind
        return ("dictionary", kind, bool(array.ordered), 8 * codes.dtype.itemsize), codes, mask(codes < 0)
    if isinstance(dtype, pd.StringDtype):
        return ("string",), array.to_numpy(object), mask(array.isna())
    if isinstance(dtype, pd.DatetimeTZDtype):
        return temporal(array.asi8, "timestamp", dtype.unit, zone_name(dtype.tz))
    if hasattr(dtype, "numpy_dtype") and hasattr(array, "_mask"):
        return number_type(name, dtype.numpy_dtype), array._data, mask(array._mask)
    if not isinstance(dtype, np.dtype):
        raise unsupported(name, f"its dtype is {dtype}")
    found = np.asarray(array)
    if dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        return temporal(found.view(np.int64), "timestamp" if dtype.kind == "M" else "duration", unit, None)
    if dtype == object:
        return infer(name, found)
    return number_type(name, dtype), found, mask(np.isnan(found)) if dtype.kind == "f" else None


def unsupported(name, reason):
    return ValueError(f"cannot write column {name!r} to Parquet: {reason}; convert it, for example with `astype(str)`")


def mask(missing):
    return ~np.asarray(missing) if missing.any() else None


def number_type(name, dtype):
    if dtype.kind in "iu":
        return ("int", 8 * dtype.itemsize, dtype.kind == "i")
    if dtype.kind == "b":
        return ("bool",)
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return ("float16",) if dtype.itemsize == 2 else ("float", 8 * dtype.itemsize)
    raise unsupported(name, f"its dtype is {dtype}")


def temporal(ticks, kind, unit, zone):
    """Parquet has no timestamps in seconds. Durations are plain integers, so Arrow's schema tells their unit."""
    valid = mask(ticks == np.iinfo(np.int64).min)
    if unit == "s" and kind == "timestamp":
        present = ticks if valid is None else ticks[valid]
        if len(present) and max(-int(present.min()), int(present.max())) > np.iinfo(np.int64).max // 1000:
            raise ValueError("cannot write a timestamp in seconds to Parquet: it is out of bounds for milliseconds")
        ticks, unit = ticks * 1000, "ms"
    return ("timestamp", unit, zone) if kind == "timestamp" else ("duration", unit), ticks, valid


def zone_name(zone):
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name:
        return name
    offset = zone.utcoffset(None)
    if offset is None:
        return str(zone)
    if not offset:
        return "UTC"
    sign, offset = ("-", -offset) if offset < datetime.timedelta(0) else ("+", offset)
    minutes = int(offset.total_seconds()) // 60
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def infer(name, found, depth=0):
    """Finds the common type of objects."""
    if depth > MAX_DEPTH:
        raise unsupported(name, "it is nested too deeply")
    missing = pd.isna(found)
    valid = mask(missing)
    items = found[~missing].tolist() if valid is not None else found.tolist()
    kinds = set(map(type, items))
    if not kinds:
        return ("null",), found, valid

    def are(*types):
        return all(issubclass(kind, types) for kind in kinds)

    if are(str):
        return ("string",), found, valid
    if are(bytes, bytearray):
        return ("binary",), found, valid
    if are(bool, np.bool_):
        return ("bool",), found, valid
    if are(int, np.integer) and not any(issubclass(kind, bool) for kind in kinds):
        low, high = min(items), max(items)
        if not -(1 << 63) <= low <= high < 1 << (64 if low >= 0 else 63):
            raise unsupported(name, "an integer exceeds 64 bits")
        return ("int", 64, bool(high < 1 << 63)), found, valid
    if are(int, float, np.integer, np.floating) and not any(issubclass(kind, bool) for kind in kinds):
        return ("float", 64), found, valid
    if are(decimal.Decimal):
        return decimal_type(name, items), found, valid
    if are(datetime.datetime):
        return inferred_time(pd.DatetimeIndex(items), found, valid)
    if are(datetime.date) and not any(issubclass(kind, datetime.datetime) for kind in kinds):
        return ("date",), found, valid
    if are(datetime.time):
        return ("time", "us"), found, valid
    if are(datetime.timedelta):
        return inferred_time(pd.TimedeltaIndex(items), found, valid)
    if are(list, tuple, np.ndarray):
        if any(isinstance(item, np.ndarray) and item.ndim != 1 for item in items):
            raise unsupported(name, "it contains arrays with more than one dimension")
        return ("list", infer_elements(name, items, depth)), found, valid
    if are(dict):
        keys = list(dict.fromkeys(itertools.chain.from_iterable(items)))
        if not keys or not all(isinstance(key, str) for key in keys):
            raise unsupported(name, "the keys of its dicts are not strings, or all dicts are empty")
        fields = [(key, values.as_objects([item.get(key) for item in items])) for key in keys]
        return ("struct", [(key, infer(name, column, depth + 1)[0]) for key, column in fields]), found, valid
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise unsupported(name, f"it contains objects of type {names}")


def infer_elements(name, items, depth):
    dtypes = {item.dtype if isinstance(item, np.ndarray) else None for item in items}
    dtype = dtypes.pop()
    if not dtypes and dtype is not None and dtype != object:
        if dtype.kind in "mM":
            return temporal(np.empty(0, np.int64), "timestamp" if dtype.kind == "M" else "duration",
                            np.datetime_data(dtype)[0], None)[0]  # fmt: skip
        return ("string",) if dtype.kind == "U" else number_type(name, dtype)
    return infer(name, values.as_objects(list(itertools.chain.from_iterable(items))), depth + 1)[0]


def decimal_type(name, items):
    digits = scale = 0
    for item in items:
        _, figures, exponent = item.as_tuple()
        if not isinstance(exponent, int):
            raise unsupported(name, "it contains decimals that are not finite")
        scale = max(scale, -exponent)
        digits = max(digits, len(figures) + exponent)
    if max(1, digits + scale) > 76:
        raise unsupported(name, "a decimal has more than 76 digits")
    return ("decimal", max(1, digits + scale), scale)


def inferred_time(index, found, valid):
    """Converts objects to the ticks of an index, which contains only the valid ones."""
    if index.unit in ("s", "ms"):
        index = index.as_unit("us")
    zone = getattr(index, "tz", None)
    kind = ("timestamp", index.unit, zone and zone_name(zone)) if index.dtype.kind == "M" else ("duration", index.unit)
    return kind, values.fill(index.asi8, valid, 0), valid
