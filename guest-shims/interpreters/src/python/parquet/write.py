"""Writes a DataFrame to a Parquet file such that pyarrow restores it. Runs inside the guest, with pandas.

Writes row groups with data pages of version 1, and dictionaries for text and for integers with few distinct values.
`thrift`, `codecs`, `encodings`, `arrow`, `shred`, `values` and `describe` are modules of this package.
"""

import json

import numpy as np
import pandas as pd

GROUP_ROWS = 1 << 20
PAGE_ROWS = 1 << 16
SAMPLE = 4096  # integers that decide whether a dictionary pays
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
UNITS = {"ms": 1, "us": 2, "ns": 3}
OPTIONAL, REPEATED = 1, 2
I16, I32, I64, BINARY, LIST, STRUCT, BOOL, BYTE = 4, 5, 6, 8, 9, 12, 1, 3  # types of Thrift


def write_frame(frame, compression, index=None, group_rows=None):
    """Returns the parts of the file."""
    codec = codec_number(compression)
    columns, metadata = describe.table(frame, index)
    group_rows = min(group_rows or GROUP_ROWS, 1 << 24)
    if group_rows < 1:
        raise ValueError("`row_group_size` must be at least 1")
    parts, position, groups, count = [b"PAR1"], 4, [], len(frame)
    for begin in range(0, count, group_rows):
        chunks, size, end = [], 0, min(count, begin + group_rows)
        for name, (kind, found, valid), categories in columns:
            part = found[begin:end], None if valid is None else valid[begin:end]
            for path, chunk in column_chunks(name, kind, *part, categories, codec):
                details, added = chunk_metadata(path, chunk, codec, position)
                chunks.append([(2, I64, 0), (3, STRUCT, details)])
                parts += chunk.pages
                position += added
                size += chunk.raw_size
        groups.append([(1, LIST, (STRUCT, chunks)), (2, I64, size), (3, I64, end - begin)])
    texts = {"pandas": json.dumps(metadata)}
    if frame.attrs:
        texts["PANDAS_ATTRS"] = json.dumps(frame.attrs)
    origin = arrow.write_arrow([(name, kind) for name, (kind, _, _), _ in columns], texts)
    pairs = [(key.encode(), text.encode()) for key, text in texts.items()] + [(b"ARROW:schema", origin)]
    elements = [[(4, BINARY, b"schema"), (5, I32, len(columns))]]
    for name, (kind, _, _), _ in columns:
        elements += schema_elements(name, kind)
    footer = thrift.write_struct([
        (1, I32, 2),
        (2, LIST, (STRUCT, elements)),
        (3, I64, count),
        (4, LIST, (STRUCT, groups)),
        (5, LIST, (STRUCT, [[(1, BINARY, key), (2, BINARY, text)] for key, text in pairs])),
        (6, BINARY, b"pandas"),
    ])
    return [*parts, footer, len(footer).to_bytes(4, "little"), b"PAR1"]


def codec_number(compression):
    if isinstance(compression, str):
        compression = compression.lower()
    try:
        return codecs.NUMBERS[compression]
    except (KeyError, TypeError):
        raise ValueError(f"compression {compression!r} is not supported; use 'snappy', 'gzip' or None") from None


def schema_elements(name, kind):
    """Returns the schema of a column, depth first."""
    label = name.encode()
    if kind[0] == "dictionary":
        kind = kind[1]
    if kind[0] == "list":
        group = [(3, I32, OPTIONAL), (4, BINARY, label), (5, I32, 1), (6, I32, 3), (10, STRUCT, [(3, STRUCT, [])])]
        items = [(3, I32, REPEATED), (4, BINARY, b"list"), (5, I32, 1)]
        return [group, items, *schema_elements("element", kind[1])]
    if kind[0] == "struct":
        group = [(3, I32, OPTIONAL), (4, BINARY, label), (5, I32, len(kind[1]))]
        return [group, *(element for child in kind[1] for element in schema_elements(*child))]
    type_, size = shred.physical(kind)
    converted, scale, precision, logical = annotation(kind)
    logical = None if logical is None else [(logical[0], STRUCT, logical[1])]
    return [[
        (1, I32, type_), (2, I32, size), (3, I32, OPTIONAL), (4, BINARY, label), (6, I32, converted),
        (7, I32, scale), (8, I32, precision), (10, STRUCT, logical),
    ]]  # fmt: skip


def annotation(kind):
    """Returns the converted type, scale, precision and logical type."""
    name = kind[0]
    if name == "string":
        return 0, None, None, (1, [])
    if name == "decimal":
        return 5, kind[2], kind[1], (5, [(1, I32, kind[2]), (2, I32, kind[1])])
    if name == "date":
        return 6, None, None, (6, [])
    if name == "null":
        return None, None, None, (11, [])
    if name == "float16":
        return None, None, None, (15, [])
    if name == "int" and not (kind[2] and kind[1] >= 32):
        converted = {8: 11, 16: 12, 32: 13, 64: 14}[kind[1]] + (4 if kind[2] else 0)
        return converted, None, None, (10, [(1, BYTE, kind[1]), (2, BOOL, kind[2])])
    if name == "time":
        return None, None, None, (7, [(1, BOOL, False), (2, STRUCT, [(UNITS[kind[1]], STRUCT, [])])])
    if name == "timestamp":
        unit = [(UNITS[kind[1]], STRUCT, [])]
        return None, None, None, (8, [(1, BOOL, kind[2] is not None), (2, STRUCT, unit)])
    return None, None, None, None


class Chunk:
    """The pages of a leaf in a row group."""

    def __init__(self, type_, count):
        self.type, self.count = type_, count
        self.pages, self.raw_size, self.dictionary_size = [], 0, 0

    def add(self, codec, body, page_type, details):
        packed = codecs.compress(codec, body)
        header = thrift.write_struct([(1, I32, page_type), (2, I32, len(body)), (3, I32, len(packed)), details])
        self.pages += [header, packed]
        self.raw_size += len(header) + len(body)
        return len(header) + len(packed)


def chunk_metadata(path, chunk, codec, position):
    size = sum(map(len, chunk.pages))
    encodings_ = [PLAIN, RLE, RLE_DICTIONARY] if chunk.dictionary_size else [PLAIN, RLE]
    return [
        (1, I32, chunk.type),
        (2, LIST, (I32, encodings_)),
        (3, LIST, (BINARY, [name.encode() for name in path])),
        (4, I32, codec),
        (5, I64, chunk.count),
        (6, I64, chunk.raw_size),
        (7, I64, size),
        (9, I64, position + chunk.dictionary_size),
        (11, I64, position if chunk.dictionary_size else None),
    ], size


def column_chunks(name, kind, found, valid, categories, codec):
    if kind[0] == "dictionary":
        kind = kind[1]
    paths = leaf_paths((name,), kind)
    for path, leaf in zip(paths, shred.shred(kind, found, valid), strict=True):
        yield path, write_leaf(codec, categories, *leaf)


def leaf_paths(path, kind):
    if kind[0] == "list":
        return leaf_paths((*path, "list", "element"), kind[1])
    if kind[0] == "struct":
        return [leaf for name, child in kind[1] for leaf in leaf_paths((*path, name), child)]
    return [path]


def write_leaf(codec, dictionary, kind, found, definitions, repetitions, definition, repetition):
    chunk = Chunk(shred.physical(kind)[0], len(definitions))
    codes = None
    if kind[0] == "binary":
        found = values.as_objects(list(map(bytes, found)))
    if dictionary is not None:
        codes = found
    elif kind[0] in ("string", "binary") or kind[0] == "int" and found.dtype != object:
        codes, dictionary = distinct(kind, found)
    if codes is not None:
        body = shred.plain(kind, dictionary)
        details = (7, STRUCT, [(1, I32, len(dictionary)), (2, I32, PLAIN)])
        chunk.dictionary_size = chunk.add(codec, body, 2, details)
        width = max(1, (len(dictionary) - 1).bit_length()) if len(dictionary) else 1
    present = np.concatenate(([0], np.cumsum(definitions == definition)))
    for begin, end in page_bounds(len(definitions), repetitions):
        first, last = int(present[begin]), int(present[end])
        levels = b""
        for column, highest in (repetitions, repetition), (definitions, definition):
            if highest:
                packed = encodings.write_hybrid(column[begin:end], highest.bit_length())
                levels += len(packed).to_bytes(4, "little") + packed
        if codes is not None:
            body = bytes([width]) + encodings.write_hybrid(codes[first:last], width)
        else:
            body = shred.plain(kind, found[first:last])
        encoding = PLAIN if codes is None else RLE_DICTIONARY
        details = [(1, I32, end - begin), (2, I32, encoding), (3, I32, RLE), (4, I32, RLE)]
        chunk.add(codec, levels + body, 0, (5, STRUCT, details))
    return chunk


def page_bounds(count, repetitions):
    if repetitions is None:
        bounds = [*range(0, count, PAGE_ROWS), count]
    else:  # a page starts with a row
        rows, bounds = np.flatnonzero(repetitions == 0), [0]
        while bounds[-1] < count:
            following = np.searchsorted(rows, bounds[-1] + PAGE_ROWS)
            bounds.append(int(rows[following]) if following < len(rows) else count)
    return zip(bounds, bounds[1:])


def distinct(kind, found):
    """Returns codes and distinct values, or `None` if a dictionary does not pay."""
    if kind[0] == "int":
        sample = found[:: max(1, len(found) // SAMPLE)][:SAMPLE]
        if len(found) < 16 or len(np.unique(sample)) > len(sample) // 2:
            return None, None
    codes, unique = pd.factorize(found)
    if len(unique) > max(16, len(found) // 2):
        return None, None
    return codes, np.asarray(unique)
