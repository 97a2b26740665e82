"""The compression of Parquet pages. Runs inside the guest, with numpy. `encodings`, `thrift` and `zstd` are modules
of this package.

Snappy, LZ4 and Zstandard have no module in the standard library. numpy finds the elements of Snappy's and Zstandard's
data, and places the literals. A loop makes the copies: resolving them in parallel takes longer, because copies of
copies are common.
"""

import zlib

import numpy as np

NAMES = {0: "uncompressed", 1: "snappy", 2: "gzip", 3: "lzo", 4: "brotli", 5: "lz4 (Hadoop)", 6: "zstd", 7: "lz4"}
NUMBERS = {None: 0, "none": 0, "uncompressed": 0, "snappy": 1, "gzip": 2}
MAX_PAGE_BYTES = 1 << 28
MAX_MEMBERS = 1024  # of a page with gzip, because each member copies the data after it
WINDOW = 1 << 16  # bytes of Snappy that are decoded together, so that the arrays for them stay small
SHORT = 400  # bytes of Snappy that a loop decodes faster than numpy

# By the first byte of an element of Snappy: its length after decompression, its bytes without a literal, all its bytes.
_TAGS = np.arange(256)
_LENGTHS = np.where(_TAGS & 3 == 1, 4 + (_TAGS >> 2 & 7), (_TAGS >> 2) + 1)
_HEADERS = np.choose(_TAGS & 3, (np.maximum(1, (_TAGS >> 2) - 58), 2, 3, 5))
_STEPS = _HEADERS + np.where(_TAGS & 3 == 0, _LENGTHS, 0)


def decompress(codec, data, size):
    """Decompresses a page to exactly `size` bytes."""
    if codec == 0:
        if len(data) != size:
            raise broken("a page has the wrong size")
        return data
    if codec not in _DECODERS:
        raise ValueError(
            f"cannot read Parquet files with compression {NAMES.get(codec, codec)!r}; "
            "write the file with compression 'snappy', 'gzip' or None"
        )
    if not 0 <= size <= MAX_PAGE_BYTES:
        raise broken("a page is too large")
    found = _DECODERS[codec](bytes(data), size)
    if len(found) != size:
        raise broken("a page has the wrong size")
    return found


def broken(reason):
    return ValueError(f"invalid Parquet file: {reason}")


def gunzip(data, size):
    parts = []
    while len(parts) < MAX_MEMBERS:
        member = zlib.decompressobj(47)  # zlib or gzip
        try:
            parts.append(member.decompress(data, size + 1))
        except zlib.error:
            raise broken("compressed data is damaged") from None
        size -= len(parts[-1])
        if size <= 0 or not member.unused_data:
            return b"".join(parts)
        data = member.unused_data
    raise broken("compressed data has too many parts")


def unsnap(data, size):
    total, at = encodings.varint(data, 0)
    if total != size or total > 22 * len(data):  # a copy of 64 bytes takes three
        raise broken("compressed data is damaged")
    out, filled = bytearray(size), 0
    while at < len(data):
        if is_long_literal(data[at]):
            at, filled = long_literal(data, at, out, filled)
        elif len(data) - at < SHORT:
            at, filled = unsnap_rest(data, at, out, filled)
        else:
            at, filled = unsnap_window(data, at, out, filled)
    if filled != size:
        raise broken("compressed data is damaged")
    return bytes(out)


def is_long_literal(tag):
    """Returns whether the length of a literal takes one to four bytes of its own."""
    return (tag >= 240) & (tag & 3 == 0)


def long_literal(data, at, out, filled):
    begin = at + (data[at] >> 2) - 58
    end = begin + int.from_bytes(data[at + 1 : begin], "little") + 1
    after = filled + end - begin
    if end > len(data) or after > len(out):
        raise broken("compressed data is damaged")
    out[filled:after] = data[begin:end]
    return end, after


def unsnap_rest(data, at, out, filled):
    """Decodes the elements up to the end, one after the other."""
    padded, end, size = data + bytes(5), len(data), len(out)
    while at < end:
        tag = data[at]
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if tag >= 240:
                at, filled = long_literal(data, at, out, filled)
                continue
            begin, at = at + 1, at + 1 + length
            part = data[begin:at]
        else:
            if kind == 1:
                offset, length = tag >> 5 << 8 | padded[at + 1], (tag >> 2 & 7) + 4
                at += 2
            elif kind == 2:
                offset = padded[at + 1] | padded[at + 2] << 8
                at += 3
            else:
                offset = int.from_bytes(padded[at + 1 : at + 5], "little")
                at += 5
            begin = filled - offset
            if begin < 0 or offset == 0:
                raise broken("compressed data is damaged")
            part = out[begin : begin + length] if offset >= length else overlapping(out, filled, length, offset)
        after = filled + length
        if at > end or after > size:
            raise broken("compressed data is damaged")
        out[filled:after] = part
        filled = after
    return at, filled


def unsnap_window(data, at, out, filled):
    """Decodes the elements that start in a window of `data` at `at`. Returns the positions after them.

    Computes for every byte where the next element would start, if it started an element, and then follows these places.
    """
    count = min(WINDOW, len(data) - at)
    raw = np.frombuffer(data[at : at + count + 64].ljust(count + 64, b"\0"), np.uint8)  # with the last short literal
    tags = raw[:count]
    fields = np.ndarray(count, "<u4", raw, 1, (1,)).astype(np.int64)
    lengths, steps = _LENGTHS[tags].astype(np.int64), _STEPS[tags].astype(np.int64)
    long = np.flatnonzero(is_long_literal(tags))
    headers = _HEADERS[tags[long]]
    lengths[long] = (fields[long] & (1 << 8 * (headers.astype(np.int64) - 1)) - 1) + 1
    steps[long] = headers + lengths[long]
    following = np.minimum(np.arange(count + 1) + np.append(steps, 0), count).astype(np.intp)
    places, _ = walk(following, 0)
    after = at + int(places[-1] + steps[places[-1]])
    tags, fields, lengths = tags[places], fields[places], lengths[places]
    ends = filled + np.cumsum(lengths)
    if after > len(data) or ends[-1] > len(out):
        raise broken("compressed data is damaged")
    begins, kinds = ends - lengths, tags & 3
    short = np.flatnonzero((kinds == 0) & (tags < 240))
    target, source = indices(begins[short], lengths[short]), indices(places[short] + 1, lengths[short])
    np.frombuffer(out, np.uint8)[target] = raw[source]
    for index in np.flatnonzero(is_long_literal(tags)).tolist():
        long_literal(data, at + int(places[index]), out, int(begins[index]))
    copies = np.flatnonzero(kinds)
    tags, fields, begins = tags[copies].astype(np.int64), fields[copies], begins[copies]
    offsets = np.choose(kinds[copies] - 1, (tags >> 5 << 8 | fields & 255, fields & 0xFFFF, fields))
    sources = begins - offsets
    if len(copies) and (offsets.min() < 1 or sources.min() < 0):
        raise broken("compressed data is damaged")
    bounds = begins, ends[copies], sources, sources + lengths[copies]
    for begin, end, source, stop in zip(*(bound.tolist() for bound in bounds)):
        if stop <= begin:
            out[begin:end] = out[source:stop]
        else:
            out[begin:end] = overlapping(out, begin, end - begin, begin - source)
    return after, int(ends[-1])


def walk(following, place):
    """Returns the places from `place` on without the last one, and the last one.

    `following` maps each place to the next one, and the last place to itself.
    """
    jumps = [following]
    for _ in range(4):
        jumps.append(jumps[-1][jumps[-1]])
    far, found = memoryview(jumps.pop()), []  # every sixteenth place
    while (after := far[place]) != place:
        found.append(place)
        place = after
    places = np.array(found, np.intp)[:, None]
    for jump in jumps:
        places = np.hstack((places, jump[places]))
    places = places.reshape(-1)
    return places[places != place], place


def indices(begins, lengths):
    """Returns the indices of consecutive bytes from each of `begins` on."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def overlapping(out, end, length, offset):
    """Returns a copy for `end` that overlaps its own output."""
    return (out[end - offset : end] * (length // offset + 1))[:length]


def repeat(out, offset, length):
    """Appends a copy that overlaps its own output."""
    if not 0 < offset <= len(out):
        raise broken("compressed data is damaged")
    out += overlapping(out, len(out), length, offset)


def unlz4(data, size):
    """Decodes a block of LZ4."""
    if size > 256 * len(data):
        raise broken("compressed data is damaged")
    out, at, end = bytearray(), 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            length = token >> 4
            if length == 15:
                length, at = lz4_length(data, at)
            out += data[at : at + length]
            at += length
            if at >= end:
                break  # the last sequence has no copy
            offset = data[at] | data[at + 1] << 8
            at += 2
            length = token & 15
            if length == 15:
                length, at = lz4_length(data, at)
            length += 4
            begin = len(out) - offset
            if 0 <= begin <= len(out) - length:
                out += out[begin : begin + length]
            else:
                repeat(out, offset, length)
            if len(out) > size:
                break
    except IndexError:
        raise broken("compressed data is damaged") from None
    if at != end:
        raise broken("compressed data is damaged")
    return bytes(out)


def lz4_length(data, at):
    length, byte = 15, 255
    while byte == 255:
        byte = data[at]
        at += 1
        length += byte
    return length, at


def unlz4_frames(data, size):
    """Decodes LZ4 in Hadoop's frames: sizes after and before decompression. Some writers omit the frames."""
    parts, at, left = [], 0, size
    while at + 8 <= len(data) and left:
        after, before = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
        if after > left or at + 8 + before > len(data):
            return unlz4(data, size)
        part = unlz4(data[at + 8 : at + 8 + before], after)
        if len(part) != after:
            return unlz4(data, size)
        parts.append(part)
        at, left = at + 8 + before, left - after
    return b"".join(parts) if left == 0 and at == len(data) else unlz4(data, size)


def unzstd(data, size):
    return zstd.decompress(data, size)


_DECODERS = {1: unsnap, 2: gunzip, 5: unlz4_frames, 6: unzstd, 7: unlz4}


def compress(codec, data):
    if codec == 1:
        return snap(data)
    if codec == 2:
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    return data


def snap(data):
    """Encodes as Snappy. Finds only repetitions of eight bytes or of a divisor of eight, which numpy can search for."""
    found, at = [thrift.write_varint(len(data))], 0
    for begin, end in repetitions(data):
        literal(found, data, at, begin)
        copy(found, end - begin, 8)
        at = end
    if at < len(data):
        literal(found, data, at, len(data))
    return b"".join(found)


def repetitions(data):
    """Returns the bounds of at least 64 bytes that repeat the eight bytes before them."""
    words = np.frombuffer(data, "<u8", len(data) // 8)
    if len(words) < 9:
        return []
    edges = np.flatnonzero(words[1:] != words[:-1])
    edges = np.concatenate(([-1], edges, [len(words) - 1]))
    long = np.flatnonzero(np.diff(edges) > 8)
    return [(8 * (int(edges[at]) + 2), 8 * (int(edges[at + 1]) + 1)) for at in long]


def literal(found, data, at, end):
    size = end - at - 1
    if size < 60:
        found.append(bytes([size << 2]))
    else:
        length = (size.bit_length() + 7) // 8
        found.append(bytes([59 + length << 2]) + size.to_bytes(length, "little"))
    found.append(data[at:end])


def copy(found, size, offset):
    whole, rest = divmod(size, 64)
    found.append((bytes([63 << 2 | 2]) + offset.to_bytes(2, "little")) * whole)
    if rest:
        found.append(bytes([rest - 1 << 2 | 2]) + offset.to_bytes(2, "little"))
