"""Reads the values of a column from the pages of a Parquet file. Runs inside the guest, with numpy.

`thrift`, `codecs`, `encodings` and `values` are modules of this package.
"""

import numpy as np

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED = 0, 2, 3, 4
DELTA, DELTA_LENGTHS, DELTA_ARRAYS, RLE_DICTIONARY, SPLIT = 5, 6, 7, 8, 9
NUMBERS = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}  # by physical type
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
VALUES_PER_BYTE = 4096  # a higher average is an attempt to use up memory


def broken(reason):
    return ValueError(f"invalid Parquet file: {reason}")


class Categories:
    """The distinct values of a column in the order of its dictionaries."""

    def __init__(self):
        self.codes = {}

    def encode(self, array):
        codes = self.codes
        return np.array([codes.setdefault(value, len(codes)) for value in array.tolist()], np.int32)


class Column:
    """Collects the values of a column over all row groups. Levels are `None` where all values are present.

    With `categories`, the values are codes of it.
    """

    def __init__(self, node, categories=None):
        self.node, self.categories = node, categories
        self.values, self.definitions, self.repetitions, self.count = [], [], [], 0

    def read_chunk(self, file, file_size, chunk, rows):
        details = chunk.get(3)
        if chunk.get(1) is not None:
            raise ValueError(f"cannot read column {self.node.label!r}: its values are in another file")
        if details is None:
            raise ValueError(f"cannot read column {self.node.label!r}: it is encrypted")
        if details.get(1) != self.node.physical:
            raise broken(f"the type of column {self.node.label!r} contradicts the schema")
        begin, size, expected = details[9], details[7], details[5]
        if expected == rows == 0:
            return
        if 0 < (details.get(11) or 0) < begin:
            begin = details[11]
        if begin < 4 or size < 0 or begin + size > file_size:
            raise broken(f"column {self.node.label!r} exceeds the file")
        file.seek(begin)
        data = file.read(size)
        if len(data) != size:
            raise broken(f"column {self.node.label!r} exceeds the file")
        if expected > encodings.MAX_VALUES + VALUES_PER_BYTE * size:
            raise broken(f"column {self.node.label!r} has too many values for its size")
        before = self.count
        self.dictionary, self.recoded, at = None, None, 0
        while self.count - before < expected:
            reader = thrift.Reader(data, at)
            header = reader.struct()
            at = reader.at + header[3]
            if header[3] < 0 or at > size:
                raise broken(f"a page of column {self.node.label!r} exceeds the column")
            self.read_page(header, data[reader.at : at], details[4])
        if self.count - before != expected or self.node.repetition == 0 and expected != rows:
            raise broken(f"column {self.node.label!r} has the wrong number of values")

    def read_page(self, header, body, codec):
        if header[1] == DICTIONARY:
            data = codecs.decompress(codec, body, header[2])
            count = checked(header[7][1])
            if header[7][2] not in (PLAIN, PLAIN_DICTIONARY):
                raise broken("the encoding of a dictionary is invalid")
            self.dictionary, self.recoded = self.decode(PLAIN, data, count), None
        elif header[1] == DATA:
            self.read_data(header[5], codecs.decompress(codec, body, header[2]))
        elif header[1] == DATA_V2:
            self.read_data_v2(header, body, codec)
        elif header[1] != INDEX:
            raise broken("the type of a page is unknown")

    def read_data(self, header, data):
        count, at = checked(header[1]), 0
        levels = []
        for highest, encoding in (self.node.repetition, header[4]), (self.node.definition, header[3]):
            found = None
            if highest:
                width = highest.bit_length()
                if encoding == BIT_PACKED:
                    found, size = encodings.read_bit_packed(data[at:], width, count)
                    at += size
                elif encoding == RLE:
                    size = int.from_bytes(data[at : at + 4], "little")
                    if at + 4 + size > len(data):
                        raise broken("the levels of a page exceed it")
                    found = encodings.read_hybrid(data[at + 4 : at + 4 + size], width, count)
                    at += 4 + size
                else:
                    raise broken("the encoding of levels is unknown")
            levels.append(found)
        self.add(header[2], data[at:], count, *levels)

    def read_data_v2(self, page, body, codec):
        header = page[8]
        count, sizes = checked(header[1]), (header[6], header[5])
        at, levels = 0, []
        for highest, size in zip((self.node.repetition, self.node.definition), sizes):
            if size < 0 or at + size > len(body):
                raise broken("the levels of a page exceed it")
            width = highest.bit_length()
            levels.append(encodings.read_hybrid(body[at : at + size], width, count) if highest else None)
            at += size
        data = body[at:]
        if header.get(7, True) and data:
            data = codecs.decompress(codec, data, page[2] - at)
        self.add(header[4], data, count, *levels)

    def add(self, encoding, data, count, repetitions, definitions):
        """Adds the levels and values of a page."""
        highest, present = self.node.definition, count
        if definitions is not None:
            if count and int(definitions.max()) > highest:
                raise broken("a level is too high")
            present = int(np.count_nonzero(definitions == highest))
            definitions = definitions.astype(np.uint8, copy=False)
        if repetitions is not None:
            if count and (int(repetitions.max()) > self.node.repetition or self.count == 0 and repetitions[0] != 0):
                raise broken("a level is too high")
            repetitions = repetitions.astype(np.uint8, copy=False)
            self.repetitions.append(repetitions)
        if encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY):
            values = self.look_up(data, present)
        else:
            values = self.decode(encoding, data, present)
            if self.categories is not None:
                values = self.categories.encode(values)
        if present == count and not self.node.repetition:
            definitions = None
        self.definitions.append((count, definitions))
        self.values.append(values)
        self.count += count

    def look_up(self, data, count):
        """Returns values of the dictionary, or codes of categories."""
        dictionary = self.dictionary
        if dictionary is None and count:
            raise broken("a page has no dictionary")
        if dictionary is None:
            return np.empty(0, np.int32) if self.categories is not None else self.decode(PLAIN, b"", 0)
        if self.categories is not None:
            if self.recoded is None:
                self.recoded = self.categories.encode(dictionary)
            dictionary = self.recoded
        if count == 0:
            return dictionary[:0]
        if not data:
            raise broken("a page has no indices")
        indices = encodings.read_hybrid(data[1:], data[0], count)
        if int(indices.max()) >= len(dictionary):
            raise broken("an index exceeds the dictionary")
        return dictionary[indices]

    def decode(self, encoding, data, count):
        return values.finish(self.node, self.decode_physical(encoding, data, count))

    def decode_physical(self, encoding, data, count):
        """Returns an array of numbers, or a list of byte arrays."""
        kind = self.node.physical
        size = {INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8, FIXED: self.node.size}.get(kind)
        if encoding == PLAIN:
            if kind == BOOLEAN:
                if count > 8 * len(data):
                    raise broken("values exceed the data")
                return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").astype(bool)
            if kind == BYTE_ARRAY:
                return encodings.read_plain_arrays(data, count)
            return self.from_bytes(data, count, size)
        if encoding == RLE and kind == BOOLEAN:
            return encodings.read_hybrid(data[4:], 1, count).astype(bool)
        if encoding == SPLIT and size is not None and kind != INT96:
            return self.from_bytes(encodings.read_split(data, count, size), count, size)
        if encoding == DELTA and kind in (INT32, INT64):
            found = encodings.read_delta(data)[0].astype(NUMBERS[kind])
        elif encoding == DELTA_LENGTHS and kind == BYTE_ARRAY:
            found = encodings.read_delta_lengths(data)
        elif encoding == DELTA_ARRAYS and kind in (BYTE_ARRAY, FIXED):
            found = encodings.read_delta_arrays(data)
            if kind == FIXED and any(len(item) != size for item in found):
                raise broken("a value has the wrong size")
        else:
            raise ValueError(f"cannot read column {self.node.label!r}: encoding {encoding} is unsupported for its type")
        if len(found) != count:
            raise broken("a page has the wrong number of values")
        return found

    def from_bytes(self, data, count, size):
        if count * size > len(data):
            raise broken("values exceed the data")
        if self.node.physical in NUMBERS:
            return np.frombuffer(data, NUMBERS[self.node.physical], count)
        if self.node.physical == INT96:
            return np.frombuffer(data, [("time", "<u8"), ("day", "<u4")], count)
        if self.node.type[0] == "float16":
            return np.frombuffer(data, "<f2", count)
        return [data[at : at + size] for at in range(0, count * size, size)]

    def finish(self):
        """Joins the pages. Returns values, definition levels and repetition levels."""
        empty = np.empty(0, np.int32) if self.categories is not None else self.decode(PLAIN, b"", 0)
        found = np.concatenate(self.values) if self.values else empty
        highest, levels = self.node.definition, None
        if any(part is not None for _, part in self.definitions) or self.node.repetition:
            levels = [np.full(count, highest, np.uint8) if part is None else part for count, part in self.definitions]
            levels = np.concatenate([np.empty(0, np.uint8), *levels])
        repetitions = None
        if self.node.repetition:
            repetitions = np.concatenate([np.empty(0, np.uint8), *self.repetitions])
        self.values = self.definitions = self.repetitions = None
        return found, levels, repetitions


def checked(count):
    if not 0 <= count <= encodings.MAX_VALUES:
        raise broken("the number of values in a page is invalid")
    return count
