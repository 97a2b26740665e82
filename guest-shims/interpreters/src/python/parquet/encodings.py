"""The encodings of Parquet's levels and values. Runs inside the guest, with numpy.

Functions return numpy arrays, or lists of `bytes` for byte arrays, and the position after the data where the caller
needs it. Counts are limited, because a run of equal values takes only a few bytes. `thrift` is a module of this
package.
"""

import numpy as np

MAX_VALUES = 1 << 24  # per page


def broken(reason):
    return ValueError(f"invalid Parquet file: {reason}")


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise broken("a number is damaged")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def zigzag(data, at):
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def unpack(raw, width, kind=np.uint32):
    """Unpacks integers of `width` bits each, lowest bits first. `raw` is a multiple of `width` bytes."""
    if width == 1:
        return np.unpackbits(raw, bitorder="little").astype(kind)
    if width in (8, 16, 32, 64):
        return raw.view(f"<u{width // 8}").astype(kind)
    # A group of eight integers starts at a byte. Extracts the first integer of all groups, then the second, and so on.
    groups = raw.reshape(-1, width)
    found = np.empty((len(groups), 8), kind)
    wide = np.uint32 if width <= 25 else np.uint64
    mask = wide((1 << width) - 1)
    bits = 8 * np.dtype(wide).itemsize
    for lane in range(8):
        first, shift = divmod(lane * width, 8)
        last = (lane * width + width - 1) // 8
        value = groups[:, first].astype(wide) >> wide(shift)
        for byte in range(first + 1, last + 1):
            left = 8 * (byte - first) - shift
            if left < bits:
                value |= groups[:, byte].astype(wide) << wide(left)
        found[:, lane] = value & mask
    return found.reshape(-1)


def read_hybrid(data, width, count):
    """Decodes runs of equal and of bit-packed integers."""
    if not 0 <= width <= 32:
        raise broken("the width of packed integers is invalid")
    kind = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
    if width == 0 or count == 0:
        return np.zeros(count, kind)
    counts, is_packed, values, packed = [], [], [], []
    at, left, value_bytes = 0, count, (width + 7) // 8
    while left > 0:
        head, at = varint(data, at)
        if head & 1:
            size = min((head >> 1) * 8, left)
            needed, end = (size * width + 7) // 8, at + (head >> 1) * width
            if at + needed > len(data):
                raise broken("packed integers exceed the data")
            # Consists of whole groups. Some writers omit unused bytes of the last one.
            part = data[at : min(end, at + (size + 7) // 8 * width)]
            packed.append(part + bytes((size + 7) // 8 * width - len(part)))
            at = end
        else:
            size = min(head >> 1, left)
            if at + value_bytes > len(data):
                raise broken("packed integers exceed the data")
            values.append(int.from_bytes(data[at : at + value_bytes], "little"))
            at += value_bytes
        if size:
            counts.append(size)
            is_packed.append(head & 1 == 1)
        elif not head & 1:
            values.pop()
        left -= size
    if not packed:
        if max(values) >> width:
            raise broken("a packed integer is too large")
        return np.repeat(np.array(values, kind), np.array(counts, np.int64))
    # Only the last packed run can have unused integers.
    unpacked = unpack(np.frombuffer(b"".join(packed), np.uint8), width, kind)
    if not values:
        return unpacked[:count]
    if max(values) >> width:
        raise broken("a packed integer is too large")
    counts, is_packed = np.array(counts, np.int64), np.array(is_packed)
    result, from_packed = np.empty(count, kind), np.repeat(is_packed, counts)
    result[from_packed] = unpacked[: int(counts[is_packed].sum())]
    result[~from_packed] = np.repeat(np.array(values, kind), counts[~is_packed])
    return result


def read_bit_packed(data, width, count):
    """Decodes levels in the deprecated encoding: bit-packed, highest bits first."""
    needed = (count * width + 7) // 8
    if needed > len(data):
        raise broken("packed integers exceed the data")
    bits = np.unpackbits(np.frombuffer(data, np.uint8, needed))[: count * width].reshape(count, width)
    return bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.uint32)), needed


def read_delta(data, at=0):
    """Decodes DELTA_BINARY_PACKED. Returns 64-bit integers and the position after them."""
    block, at = varint(data, at)
    parts, at = varint(data, at)
    total, at = varint(data, at)
    value, at = zigzag(data, at)
    if total > MAX_VALUES or not 0 < parts <= 1024 or block > 1 << 20 or block % (8 * parts) or block == 0:
        raise broken("the header of delta-encoded integers is invalid")
    part = block // parts  # integers
    widths, starts, minima = [], [], []
    left = total - 1
    while left > 0:
        minimum, at = zigzag(data, at)
        sizes = data[at : at + parts]
        at += parts
        for width in sizes:
            if left <= 0:
                break
            widths.append(width)
            starts.append(at)
            minima.append(minimum)
            at += width * part // 8
            left -= part
        if at > len(data):
            raise broken("delta-encoded integers exceed the data")
    if total < 2:
        return np.full(total, value, np.uint64 if value > 0 else np.int64).astype(np.int64), at
    widths, raw = np.array(widths), np.frombuffer(data, np.uint8)
    starts = np.array(starts, np.int64)
    deltas = np.zeros((len(widths), part), np.uint64)
    for width in np.unique(widths).tolist():
        if width > 64:
            raise broken("the width of packed integers is invalid")
        if width:
            found = np.flatnonzero(widths == width)
            places = starts[found][:, None] + np.arange(width * part // 8, dtype=np.int64)
            deltas[found] = unpack(raw[places].reshape(-1), width, np.uint64).reshape(-1, part)
    minima = np.array([minimum & (1 << 64) - 1 for minimum in minima], np.uint64)
    deltas += minima[:, None]
    result = np.empty(total, np.uint64)
    result[0] = value & (1 << 64) - 1
    result[1:] = deltas.reshape(-1)[: total - 1]
    # Unsigned sums wrap around, as the format requires.
    return np.cumsum(result, dtype=np.uint64).view(np.int64), at


def read_plain_arrays(data, count):
    found, at, end = [], 0, len(data)
    for _ in range(count):
        begin = at + 4
        at = begin + int.from_bytes(data[at:begin], "little")
        if begin > end or at > end:
            raise broken("a byte array exceeds the data")
        found.append(data[begin:at])
    return found


def split(data, at, lengths):
    """Cuts `data` from `at` into parts with these lengths."""
    if len(lengths) == 0:
        return []
    # Checks the smallest and largest first: the sum of huge lengths would wrap around.
    if lengths.min() < 0 or lengths.max() > len(data) or at + int(lengths.sum()) > len(data):
        raise broken("a byte array exceeds the data")
    ends = (at + np.cumsum(lengths)).tolist()
    return [data[begin:end] for begin, end in zip([at, *ends], ends)]


def read_delta_lengths(data, at=0):
    lengths, at = read_delta(data, at)
    return split(data, at, lengths)


def read_delta_arrays(data):
    """Decodes DELTA_BYTE_ARRAY: each array starts with a prefix of the one before it."""
    prefixes, at = read_delta(data)
    suffixes = read_delta_lengths(data, at)
    if len(prefixes) != len(suffixes):
        raise broken("prefixes and suffixes of byte arrays differ in number")
    found, last, total = [], b"", 0
    for prefix, suffix in zip(prefixes.tolist(), suffixes):
        if not 0 <= prefix <= len(last):
            raise broken("the prefix of a byte array is invalid")
        last = last[:prefix] + suffix
        # Repeating a long prefix costs one byte, so a small page could expand to any size.
        total += len(last)
        if total > 1 << 28:
            raise broken("byte arrays are too large")
        found.append(last)
    return found


def read_split(data, count, size):
    """Decodes BYTE_STREAM_SPLIT: the first bytes of all values, then the second bytes, and so on."""
    if count * size > len(data):
        raise broken("values exceed the data")
    streams = np.frombuffer(data, np.uint8, count * size).reshape(size, count)
    return streams.T.tobytes()


def write_hybrid(values, width):
    """Encodes integers as one bit-packed run, or as one run if all are equal."""
    count = len(values)
    if count and width and (values == values[0]).all():
        return thrift.write_varint(count << 1) + int(values[0]).to_bytes((width + 7) // 8, "little")
    groups = (count + 7) // 8
    padded = np.zeros(groups * 8, "<u4")
    padded[:count] = values
    return thrift.write_varint(groups << 1 | 1) + pack(padded, width)


def pack(values, width):
    if width == 0:
        return b""
    if width in (8, 16, 32):
        return values.astype(f"<u{width // 8}").tobytes()
    parts = []
    for begin in range(0, len(values), 1 << 16):
        part = values[begin : begin + (1 << 16)]
        bits = np.unpackbits(part.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little", count=width)
        parts.append(np.packbits(bits, bitorder="little").tobytes())
    return b"".join(parts)
