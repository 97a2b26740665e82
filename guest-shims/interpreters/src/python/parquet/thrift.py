"""Thrift's compact protocol, as far as Parquet's metadata uses it. Runs inside the guest.

Structs are dicts from field number to value, without a schema. The number of values is limited, because a list of empty
structs takes one byte for each.
"""

import struct

MAX_DEPTH = 32
MAX_VALUES = 4_000_000
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Reader:
    """Reads structs from `data`. `at` is the position after the last one."""

    def __init__(self, data, at=0):
        self.data, self.at, self.left = data, at, MAX_VALUES

    def varint(self):
        data, at, result, shift = self.data, self.at, 0, 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            if byte < 128:
                self.at = at
                return result
            shift += 7
            if shift > 63:
                raise ValueError("invalid Parquet metadata: an integer is too long")

    def integer(self):
        """Reads a zigzag integer."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self):
        size = self.varint()
        end = self.at + size
        if end > len(self.data):
            raise ValueError("invalid Parquet metadata: a string exceeds the data")
        found = bytes(self.data[self.at : end])
        self.at = end
        return found

    def struct(self, depth=0):
        try:
            return self.fields(depth)
        except IndexError:
            raise ValueError("invalid Parquet metadata: the data is truncated") from None

    def fields(self, depth):
        if depth > MAX_DEPTH:
            raise ValueError("invalid Parquet metadata: it is nested too deeply")
        found, number = {}, 0
        while True:
            head = self.data[self.at]
            self.at += 1
            kind = head & 15
            if head == 0:
                return found
            number = number + (head >> 4) if head >> 4 else self.integer()
            found[number] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth)

    def value(self, kind, depth):
        self.left -= 1
        if self.left < 0:
            raise ValueError("invalid Parquet metadata: it has too many values")
        if kind in (I16, I32, I64):
            return self.integer()
        if kind == BINARY:
            return self.binary()
        if kind == STRUCT:
            return self.fields(depth + 1)
        if kind in (LIST, SET):
            return self.items(depth)
        if kind in (TRUE, FALSE, BYTE):  # an item of a list, where a boolean takes a byte
            self.at += 1
            return self.data[self.at - 1]
        if kind == DOUBLE:
            self.at += 8
            return struct.unpack("<d", bytes(self.data[self.at - 8 : self.at]).ljust(8, b"\0"))[0]
        if kind == MAP:
            return self.pairs(depth)
        raise ValueError(f"invalid Parquet metadata: unknown type {kind}")

    def items(self, depth):
        head = self.data[self.at]
        self.at += 1
        count = head >> 4 if head >> 4 < 15 else self.varint()
        self.check(count, depth)
        return [self.value(head & 15, depth + 1) for _ in range(count)]

    def pairs(self, depth):
        count = self.varint()
        if count == 0:
            return []
        self.check(count, depth)
        kinds = self.data[self.at]
        self.at += 1
        return [(self.value(kinds >> 4, depth + 1), self.value(kinds & 15, depth + 1)) for _ in range(count)]

    def check(self, count, depth):
        # Every item takes at least one byte.
        if count > len(self.data) - self.at:
            raise ValueError("invalid Parquet metadata: a list exceeds the data")
        if depth > MAX_DEPTH:
            raise ValueError("invalid Parquet metadata: it is nested too deeply")


def write_varint(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def zigzag(value):
    return write_varint((value << 1) ^ (value >> 63))


def write_struct(fields):
    """Encodes a struct: a list of field number, type and value, sorted by number. Skips values that are `None`."""
    found, last = [], 0
    for number, kind, value in fields:
        if value is None:
            continue
        if kind == TRUE and not value:
            kind = FALSE
        found.append(bytes([number - last << 4 | kind]))
        if kind not in (TRUE, FALSE):
            found.append(encoded(kind, value))
        last = number
    return b"".join(found) + b"\0"


def encoded(kind, value):
    if kind == BYTE:
        return bytes([value])
    if kind in (I16, I32, I64):
        return zigzag(value)
    if kind == BINARY:
        return write_varint(len(value)) + value
    if kind == STRUCT:
        return write_struct(value)
    kind, items = value  # a list, with the type of its items
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + write_varint(len(items))
    return head + b"".join(encoded(kind, item) for item in items)
