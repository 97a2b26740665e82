"""Reads and writes protobuf messages. Runs in the guest."""

import collections, struct


def varint(number):
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def number(at, value):
    return varint(at << 3) + varint(value)


def field(at, value):
    value = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(at << 3 | 2) + varint(len(value)) + value


def double(at, value):
    return varint(at << 3 | 1) + struct.pack("<d", value)


def packed(at, values):
    return field(at, b"".join(map(varint, values))) if values else b""


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & (1 << 64) - 1, at
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def parse(data):
    """Returns the values of a message by the numbers of their fields."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            if kind == 2:
                size, at = read_varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise ValueError(f"a field has the unknown type {kind}")
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("a message is truncated")
        found[key >> 3].append(value)
    return found


def last(fields, at, default=0):
    return fields[at][-1] if at in fields else default


def text(fields, at):
    return last(fields, at, b"").decode()


def numbers(fields, at):
    found = []
    for value in fields.get(at, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        position = 0
        while position < len(value):
            each, position = read_varint(value, position)
            found.append(each)
    return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value

