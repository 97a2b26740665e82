"""Splits columns into the leaves that Parquet stores, with their levels, and encodes values. Runs inside the guest."""

import itertools

import numpy as np
import pandas as pd

BOOLEAN, INT32, INT64, _, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)


def shred(kind, found, valid):
    """Returns the leaves of a column: type, values, definition levels and repetition levels, and the highest levels."""
    return list(leaves(kind, found, valid, np.zeros(len(found), np.uint8), None, 0, 0))


def leaves(kind, found, valid, definitions, repetitions, definition, repetition):
    """All nodes are optional. `found` has a value for each entry with the level `definition`: the other entries have no
    value, because an ancestor is null or empty."""
    definition += 1
    alive = np.flatnonzero(definitions == definition - 1)
    definitions = definitions.copy()
    definitions[alive if valid is None else alive[valid]] = definition
    if valid is not None:
        found = found[valid]
    if kind[0] == "struct":
        for name, child in kind[1]:
            column = values.as_objects([item.get(name) for item in found])
            yield from leaves(child, *prepared(child, column), definitions, repetitions, definition, repetition)
    elif kind[0] == "list":
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        counts = np.ones(len(definitions), np.int64)
        counts[definitions == definition] = np.maximum(lengths, 1)
        has_elements = np.zeros(len(definitions), bool)
        has_elements[definitions == definition] = lengths > 0
        firsts = np.cumsum(counts) - counts
        levels = np.full(int(counts.sum()), repetition + 1, np.uint8)
        levels[firsts] = 0 if repetitions is None else repetitions
        definitions = np.repeat(np.where(has_elements, definition + 1, definitions).astype(np.uint8), counts)
        column = elements(found)
        yield from leaves(
            kind[1], *prepared(kind[1], column), definitions, levels, definition + 1, repetition + 1
        )
    else:
        yield kind, found, definitions, repetitions, definition, repetition


def elements(found):
    if len(found) and all(isinstance(item, np.ndarray) and item.dtype.kind not in "OU" for item in found):
        return np.concatenate(list(found))
    return values.as_objects(list(itertools.chain.from_iterable(found)))


def prepared(kind, column):
    """Returns the values and mask of a nested column whose type is known."""
    if column.dtype != object:
        if column.dtype.kind in "mM":
            _, ticks, valid = infer.temporal(column.view(np.int64), kind[0], np.datetime_data(column.dtype)[0], None)
            return ticks, valid
        return column, infer.mask(np.isnan(column)) if column.dtype.kind == "f" else None
    if kind[0] in ("timestamp", "duration"):
        _, ticks, valid = infer.infer("", column)
        return ticks, valid
    return column, infer.mask(pd.isna(column))


def physical(kind):
    """Returns the physical type and, for fixed sizes, the number of bytes."""
    name = kind[0]
    if name == "int":
        return (INT64 if kind[1] == 64 else INT32), None
    if name == "float":
        return (DOUBLE if kind[1] == 64 else FLOAT), None
    if name == "decimal":
        return FIXED, ((10 ** kind[1]).bit_length() + 8) // 8
    fixed = {"float16": (FIXED, 2), "bool": (BOOLEAN, None), "string": (BYTE_ARRAY, None), "binary": (BYTE_ARRAY, None)}
    return fixed.get(name) or (INT32 if name in ("date", "null") else INT64, None)


def plain(kind, found):
    """Encodes values without nulls."""
    name = kind[0]
    if name == "int":
        found = as_integers(kind, found)
        return found.astype(("<i" if kind[2] else "<u") + ("8" if kind[1] == 64 else "4"), copy=False).tobytes()
    if name == "float":
        return found.astype(f"<f{kind[1] // 8}").tobytes()
    if name == "float16":
        return found.astype("<f2").tobytes()
    if name == "bool":
        return np.packbits(found.astype(bool), bitorder="little").tobytes()
    if name in ("string", "binary"):
        items = [item.encode() for item in found] if name == "string" else list(map(bytes, found))
        sizes = np.fromiter(map(len, items), "<u4", len(items)).tobytes()
        return b"".join([part for at, item in enumerate(items) for part in (sizes[4 * at : 4 * at + 4], item)])
    if name == "decimal":
        size = physical(kind)[1]
        return b"".join([unscaled(item, kind[2]).to_bytes(size, "big", signed=True) for item in found])
    if name == "date":
        return np.array(found.tolist(), "M8[D]").astype("<i4").tobytes()
    if name == "time":
        ticks = [((t.hour * 60 + t.minute) * 60 + t.second) * 1_000_000 + t.microsecond for t in found]
        return np.array(ticks, "<i8").tobytes()
    return found.astype("<i8").tobytes()  # timestamps and durations; a column of nulls has no values


def as_integers(kind, found):
    return np.array(found.tolist(), np.int64 if kind[2] else np.uint64) if found.dtype == object else found


def unscaled(item, scale):
    sign, digits, exponent = item.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number
