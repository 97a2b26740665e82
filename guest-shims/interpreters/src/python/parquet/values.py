"""Converts the values of Parquet columns to what pandas expects, as pyarrow's `to_pandas` does. Runs inside the guest.

A column's values are first *finished*: an array of numbers, strings or other objects without nulls. `to_array` then
adds the nulls.
"""

import datetime
import decimal
import uuid

import numpy as np
import pandas as pd

EPOCH_DAY = 2_440_588  # the Julian day of 1970-01-01
DAY_NS = 86_400_000_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of `datetime.date`
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_exact = decimal.Context(prec=200)


def finish(node, found):
    kind = node.type[0]
    if kind == "int":
        return found.astype(f"{'i' if node.type[2] else 'u'}{node.type[1] // 8}", copy=False)
    if kind == "date" and len(found) and (found.min() < FIRST_DAY or found.max() > LAST_DAY):
        raise ValueError(f"cannot read column {node.label!r}: a date is outside the years 1 to 9999")
    if kind == "timestamp" and found.dtype.names:  # INT96
        days = found["day"].astype(np.int64) - EPOCH_DAY
        if len(days) and (days.min() < -106_752 or days.max() > 106_751):
            raise ValueError(f"cannot read column {node.label!r}: a timestamp is out of bounds for nanoseconds")
        return days * DAY_NS + found["time"].astype(np.int64)
    if kind in ("string", "json"):
        return as_objects([str(item, "utf-8") for item in found])
    if kind == "decimal":
        numbers = found.tolist() if isinstance(found, np.ndarray) else [signed(node, item) for item in found]
        scale = -node.type[2]
        return as_objects([_exact.scaleb(decimal.Decimal(number), scale) for number in numbers])
    if kind == "uuid":
        return as_objects([uuid.UUID(bytes=item) for item in found])
    return found if isinstance(found, np.ndarray) else as_objects(found)


def signed(node, item):
    if len(item) > 64:
        raise ValueError(f"cannot read column {node.label!r}: a decimal is too long")
    return int.from_bytes(item, "big", signed=True)


def as_objects(items):
    found = np.empty(len(items), object)
    for at, item in enumerate(items):
        found[at] = item
    return found


def fill(found, valid, missing, kind=None):
    """Inserts `missing` where `valid` is false. `valid` is `None` if all values are present."""
    if valid is None:
        return found if kind is None else found.astype(kind, copy=False)
    result = np.full(len(valid), missing, kind or found.dtype)
    result[valid] = found
    return result


def to_array(kind, found, valid):
    """Returns a numpy array with nulls, as in pyarrow's lists."""
    name = kind[0]
    if name == "int":
        return fill(found, valid, np.nan, None if valid is None else np.float64)
    if name in ("float", "float16"):
        return fill(found, valid, np.nan)
    if name == "bool":
        return fill(found, valid, None, None if valid is None else object)
    if name in ("timestamp", "duration"):
        result = fill(found.astype(np.int64, copy=False), valid, np.iinfo(np.int64).min)
        return result.view(f"{'M8' if name == 'timestamp' else 'm8'}[{kind[1]}]")
    if name == "date":
        return fill(as_objects(found.astype("M8[D]").tolist()), valid, None)
    if name == "time":
        return fill(as_objects([time_of(item, kind[1]) for item in found.tolist()]), valid, None)
    if name == "null":
        return np.full(len(found) if valid is None else len(valid), None, object)
    return fill(found, valid, None, object)


def time_of(number, unit):
    ticks = PER_SECOND[unit]
    seconds, rest = divmod(number, ticks)
    if unit == "ns" and rest % 1000:
        raise ValueError(f"Value {number} has non-zero nanoseconds")
    if not 0 <= seconds < 86_400:
        raise ValueError(f"cannot convert {number} {unit} to a time")
    minutes, second = divmod(seconds, 60)
    return datetime.time(minutes // 60, minutes % 60, second, rest * 1_000_000 // ticks)


def to_objects(kind, found, valid):
    """Returns Python objects, as in pyarrow's structs."""
    result = to_array(kind, found, valid)
    if kind[0] == "timestamp" and kind[2] is not None and kind[1] != "ns":
        index = pd.DatetimeIndex(result).tz_localize("UTC").tz_convert(zone(kind[2]))
        return [None if item is pd.NaT else item for item in index.to_pydatetime()]
    if result.dtype.kind == "f":
        result = result.tolist()
        if valid is not None:
            result = [item if is_valid else None for item, is_valid in zip(result, valid.tolist())]
    else:
        result = result.tolist()  # NaT becomes None
    return result


def to_elements(kind, found, valid):
    """Returns a numpy array, as in pyarrow's lists below structs and maps, where timestamps are Python objects."""
    if kind[0] == "timestamp" and kind[1] != "ns":
        return as_objects(to_objects(kind, found, valid))
    return to_array(kind, found, valid)


MASKED = {
    **{("int", bits, True): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{("int", bits, False): f"UInt{bits}" for bits in (8, 16, 32, 64)},
    ("float", 32): "Float32",
    ("float", 64): "Float64",
    ("bool",): "boolean",
}


def to_column(kind, found, valid, dtype=None):
    """Returns the array of a column. `dtype` is a dtype of pandas that pandas' metadata or the caller requires."""
    if dtype is not None:
        return to_dtype(kind, found, valid, dtype)
    if kind[0] == "string" and pd.get_option("future.infer_string"):
        return pd.array(fill(found, valid, np.nan, object), dtype=pd.StringDtype(na_value=np.nan))
    result = to_array(kind, found, valid)
    if kind[0] == "timestamp" and kind[2] is not None:
        return pd.DatetimeIndex(result).tz_localize("UTC").tz_convert(zone(kind[2])).array
    return result


def to_dtype(kind, found, valid, dtype):
    if isinstance(dtype, pd.StringDtype):
        if kind[0] != "string":
            found = as_objects([str(item) for item in found.tolist()])
        return pd.array(fill(found, valid, dtype.na_value, object), dtype=dtype)
    numpy_dtype = dtype.numpy_dtype
    missing = np.zeros(len(found), bool) if valid is None else ~valid
    data = fill(found, valid, 0).astype(numpy_dtype, copy=False)
    if not data.flags.writeable:
        data = data.copy()
    return dtype.construct_array_type()(data, missing)


def zone(name):
    """Returns the time zone for pandas, from a name or an offset such as `+01:00`."""
    if len(name) == 6 and name[0] in "+-" and name[3] == ":":
        offset = datetime.timedelta(hours=int(name[1:3]), minutes=int(name[4:]))
        return datetime.timezone(-offset if name[0] == "-" else offset)
    return name
