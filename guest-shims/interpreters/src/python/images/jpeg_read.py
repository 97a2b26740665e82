"""Decodes JPEG files for Pillow, whose own decoder needs libjpeg. Runs inside the guest, with numpy.

Supports the formats that libjpeg decodes by default: sequential and progressive Huffman coding with 8 bits per sample.
The pixels equal libjpeg's: the inverse DCT, the upsampling and the color conversion use the same integer arithmetic.
Only reduced sizes (`draft`) differ by small amounts. A *unit* is an MCU, and a *mean* is a DC coefficient.
"""

import array
import re

import numpy as np
from PIL import Image, ImageFile

BROKEN = -2  # `ImageFile.ERRORS`: the data is invalid or not supported
STRIP_ROWS = 64  # rows of pixels per color conversion; a multiple of every reduction and sampling factor
BATCH_BLOCKS = 4096  # blocks per inverse DCT

# Zigzag order: the position of each coefficient in its block, by rank in the file.
NATURAL = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14,
    21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60,
    61, 54, 47, 55, 62, 63,
)  # fmt: skip
RANK = np.argsort(NATURAL)

_next_marker = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL).search
_split_intervals = re.compile(rb"\xff+[\xd0-\xd7]").split


class Broken(Exception):
    """The file is invalid, or not supported."""


class JpegDecoder(ImageFile.PyDecoder):
    """Pillow's `jpeg` decoder. Collects the file up to its end marker, then decodes it."""

    def init(self, args):
        self.rawmode, self.reduction, self.data = args[0], args[2] if len(args) > 2 else 1, bytearray()
        self.at, self.in_scan = 0, False

    def decode(self, buffer):
        self.data += buffer
        if not self._has_end():
            return len(buffer), 0
        try:
            decode_file(self)
        except (Broken, IndexError, ValueError, KeyError):
            return -1, BROKEN
        finally:
            self.data = bytearray()
        return -1, 0

    def _has_end(self):
        """Advances `at` to the first incomplete segment. Returns `True` if that is the end marker."""
        data = self.data
        while True:
            if self.in_scan:
                found = _next_marker(data, self.at)
                if found is None:
                    # The last byte can be the first byte of a marker.
                    self.at = max(self.at, len(data) - 1)
                    return False
                self.at, self.in_scan = found.start(), False
            while self.at + 1 < len(data) and (data[self.at] != 0xFF or data[self.at + 1] in (0, 0xFF)):
                self.at += 1
            if self.at + 1 >= len(data):
                return False
            marker = data[self.at + 1]
            if marker == 0xD9:
                return True
            if marker == 1 or 0xD0 <= marker <= 0xD8:
                self.at += 2
                continue
            if self.at + 4 > len(data):
                return False
            end = self.at + 2 + int.from_bytes(data[self.at + 2 : self.at + 4])
            if end > len(data):
                return False
            self.at, self.in_scan = end, marker == 0xDA


class Component:
    """A color component of the frame."""

    def __init__(self, name, sampling, table):
        self.name, self.h, self.v, self.table = name, sampling >> 4, sampling & 15, table
        self.quantization = None
        if not (1 <= self.h <= 4 and 1 <= self.v <= 4):
            raise Broken

    def place(self, frame):
        """Computes the component's size in samples and in blocks."""
        self.width, self.height = -(-frame.width * self.h // frame.h), -(-frame.height * self.v // frame.v)
        self.wide, self.high = frame.across * self.h, frame.down * self.v
        self.plane = np.full((self.high * 8, self.wide * 8), 128, np.uint8)

    def latch(self, tables):
        if self.quantization is None:
            self.quantization = tables[self.table]

    def transform(self, coefficients, row):
        """Computes the samples of rows of blocks. `row` is the first row."""
        count = max(BATCH_BLOCKS // self.wide, 1)
        for first in range(0, len(coefficients) // self.wide, count):
            if row + first >= self.high:
                return
            part = coefficients[first * self.wide : (first + count) * self.wide]
            samples = inverse_dct(part, self.quantization).reshape(8, 8, -1, self.wide)
            samples = samples.transpose(2, 0, 3, 1).reshape(-1, self.wide * 8)
            start = (row + first) * 8
            self.plane[start : start + len(samples)] = samples[: len(self.plane) - start]


class Frame:
    """The frame header: the size of the image and its components."""

    def __init__(self, marker, body):
        self.progressive = marker == 0xC2
        if marker not in (0xC0, 0xC1, 0xC2) or body[0] != 8:
            raise Broken
        self.height, self.width, count = int.from_bytes(body[1:3]), int.from_bytes(body[3:5]), body[5]
        if not self.height or not self.width or count not in (1, 3, 4):
            raise Broken
        self.components = [Component(*body[at : at + 3]) for at in range(6, 6 + 3 * count, 3)]
        if count == 1:
            self.components[0].h = self.components[0].v = 1  # sampling factors have no effect
        self.h, self.v = max(each.h for each in self.components), max(each.v for each in self.components)
        if any(self.h % each.h or self.v % each.v for each in self.components):
            raise Broken  # as in libjpeg
        self.across, self.down = -(-self.width // (8 * self.h)), -(-self.height // (8 * self.v))


def decode_file(decoder):
    """Decodes a complete file into the decoder's image."""
    data, at, frame, interval, whole = decoder.data, 0, None, 0, []
    quantization, huffman, jfif, adobe = {}, {}, False, None
    state = decoder.state
    while True:
        found = _next_marker(data, at)
        if found is None:
            break
        at, marker = found.end(), data[found.end() - 1]
        if marker == 0xD9:
            break
        if marker in (1, 0xD8):
            continue
        end = at + int.from_bytes(data[at : at + 2])
        body = data[at + 2 : end]
        at = end
        if marker == 0xDB:
            read_quantization(body, quantization)
        elif marker == 0xC4:
            read_huffman(body, huffman)
        elif marker == 0xDD:
            interval = int.from_bytes(body[:2])
        elif marker == 0xE0:
            jfif = jfif or body[:5] == b"JFIF\0"
        elif marker == 0xEE:
            if body[:5] == b"Adobe" and len(body) >= 12:
                adobe = body[11]
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if frame is not None:
                raise Broken
            frame = Frame(marker, body)
            reduction = decoder.reduction
            size = -(-frame.width // reduction), -(-frame.height // reduction)
            if size != (state.xsize, state.ysize):
                raise Broken
            for each in frame.components:
                each.place(frame)
        elif marker == 0xDA:
            if frame is None:
                raise Broken
            found = _next_marker(data, at)
            end = found.start() if found else len(data)
            scan = Scan(frame, body, data[at:end], interval, huffman)
            at = end
            for each in scan.components:
                each.latch(quantization)
            if not frame.progressive and len(scan.components) == len(frame.components):
                scan.decode_at_once()
                break
            if not whole:
                whole = [np.zeros((each.high * each.wide, 64), np.int16) for each in frame.components]
            scan.decode([whole[frame.components.index(each)] for each in scan.components])
    if frame is None:
        raise Broken
    for each, coefficients in zip(frame.components, whole):
        if each.quantization is not None:
            each.transform(coefficients, 0)
    write_pixels(decoder, frame, color_space(frame, jfif, adobe))


def read_quantization(body, tables):
    at = 0
    while at < len(body):
        wide, name = divmod(body[at], 16)
        end = at + 1 + (128 if wide else 64)
        if end > len(body):
            raise Broken
        tables[name] = np.frombuffer(body[at + 1 : end], ">u2" if wide else np.uint8).astype(np.int32)
        at = end


def read_huffman(body, tables):
    """Reads Huffman tables into `tables`, by class and number. A table is indexed by the next 16 bits of the data.

    Each entry is the length of the code, plus 256 times the symbol. An invalid code counts as symbol 0 with 16 bits."""
    at = 0
    while at + 17 <= len(body):
        counts = body[at + 1 : at + 17]
        symbols = body[at + 17 : at + 17 + sum(counts)]
        if len(symbols) < sum(counts):
            raise Broken
        entries, code, used = [16] * 65536, 0, iter(symbols)
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                span = 65536 >> length
                if code + span > 65536:
                    raise Broken
                entries[code : code + span] = [length | next(used) << 8] * span
                code += span
        tables[body[at]] = np.array(entries, np.int32)
        at += 17 + len(symbols)


# The steps of an AC table: 256 times the number of coefficients to advance, plus the number of bits of code and value.
BLOCK_END = 1 << 16  # in a step: the end of a band, with 256 times the binary logarithm of the run


def steps_of(table, progressive):
    symbol, length = table >> 8, table & 255
    run, size = symbol >> 4, symbol & 15
    steps = (run + 1 << 8) | length + size
    ends = (size == 0) & (run < 15)
    end = BLOCK_END | run << 8 | length if progressive else 64 << 8 | length
    return memoryview(np.where(ends, end, steps).astype(np.int32))


class Scan:
    """One scan: its components, its data, and the position in the data in bits."""

    def __init__(self, frame, header, data, interval, huffman):
        count = header[0]
        self.frame, self.interval, self.huffman = frame, interval, huffman
        names, by_name = header[1 : 1 + 2 * count : 2], {each.name: each for each in frame.components}
        self.components = [by_name[name] for name in names]
        self.tables = header[2 : 2 + 2 * count : 2]
        self.start, self.stop, shifts = header[1 + 2 * count : 4 + 2 * count]
        self.high, self.low = divmod(shifts, 16)
        if not count or len(set(names)) < count or len(names) < count:
            raise Broken
        if not frame.progressive:
            self.start, self.stop, self.high, self.low = 0, 63, 0, 0
        elif (
            self.start > self.stop
            or self.stop > 63
            or self.low > 13
            or self.start
            and count > 1
            or not self.start
            and self.stop
        ):
            raise Broken
        # Zeros follow each interval, because libjpeg reads zeros after the end. No block takes more than 512 bytes.
        parts = [part.replace(b"\xff\0", b"\xff") for part in _split_intervals(data)[: None if interval else 1]]
        self.begins, self.ends, at = [], [], 0
        for part in parts:
            self.begins.append(at * 8)
            self.ends.append((at + len(part)) * 8)
            at += len(part) + 16
        padded = b"".join(part + bytes(16) for part in parts) + bytes(512 - at % 4)
        self.words = np.empty(len(padded) - 4, np.uint32)  # the 32 bits that start at each byte
        for offset in range(4):
            self.words[offset::4] = np.frombuffer(padded, ">u4", len(self.words[offset::4]), offset)
        if count == 1:
            only = self.components[0]
            self.across, self.down = -(-only.width // 8), -(-only.height // 8)
            self.shapes = [(1, 1)]
        else:
            self.across, self.down = frame.across, frame.down
            self.shapes = [(each.h, each.v) for each in self.components]
            if sum(h * v for h, v in self.shapes) > 10:
                raise Broken
        self.word = memoryview(self.words)
        self.position, self.limit, self.left, self.part, self.run = self.begins[0], self.ends[0], interval, 0, 0
        self.predictions = [0] * count

    def restart(self):
        """Starts the next interval. If there is none, sets `limit` to -1: no data is left."""
        self.part += 1
        self.left, self.run = self.interval, 0
        self.predictions = [0] * len(self.components)
        if self.part < len(self.begins):
            self.position, self.limit = self.begins[self.part], self.ends[self.part]
        else:
            self.limit = -1

    def decode_at_once(self):
        """Decodes the only scan of a sequential file, without keeping the coefficients of the whole image."""
        count = max(BATCH_BLOCKS // (self.across * sum(h * v for h, v in self.shapes)), 1)
        targets = [
            np.zeros((each.wide * v * count, 64), np.int16) for each, (_, v) in zip(self.components, self.shapes)
        ]
        for first in range(0, self.down, count):
            for target in targets:
                target.fill(0)
            self.sequential_rows(first, min(first + count, self.down), first, targets)
            for each, (_, v), target in zip(self.components, self.shapes, targets):
                each.transform(target, first * v)

    def decode(self, targets):
        """Decodes the scan into the coefficients of the whole image."""
        count = max(BATCH_BLOCKS // (self.across * sum(h * v for h, v in self.shapes)), 1)
        for first in range(0, self.down, count):
            last = min(first + count, self.down)
            if self.start:
                (self.refined_rows if self.high else self.band_rows)(first, last, targets[0])
            elif self.high:
                self.refined_means(first, last, targets)
            else:
                self.sequential_rows(first, last, 0, targets)

    def units(self, row, origin):
        """Yields the blocks of a row's first unit: component, block, and distance to the next unit's block."""
        for index, (each, (h, v)) in enumerate(zip(self.components, self.shapes)):
            for down in range(v):
                for right in range(h):
                    yield index, ((row - origin) * v + down) * each.wide + right, h

    def sequential_rows(self, first, last, origin, targets):
        """Decodes rows of units. In a progressive file, decodes only the means."""
        word, only_means = self.word, self.frame.progressive
        tables = [
            (memoryview(self.huffman[each >> 4]), None if only_means else steps_of(self.huffman[16 | each & 15], False))
            for each in self.tables
        ]
        records = [(array.array("I"), array.array("I"), array.array("i")) for _ in self.components]
        position, limit, predictions = self.position, self.limit, self.predictions
        for row in range(first, last):
            plan = []
            for index, block, step in self.units(row, origin):
                starts, places, means = records[index]
                plan.append((index, *tables[index], starts.append, places.append, means.append, block << 8, step << 8))
            for unit in range(self.across):
                if self.interval:
                    if not self.left:
                        self.restart()
                        position, limit, predictions = self.position, self.limit, self.predictions
                    self.left -= 1
                if position >= limit:
                    continue
                for index, mean, steps, add_start, add_place, add_mean, base, step in plan:
                    place = base + unit * step
                    entry = mean[word[position >> 3] >> 16 - (position & 7) & 65535]
                    position += entry & 255
                    if size := entry >> 8:
                        if size > 16:
                            raise Broken
                        value = word[position >> 3] >> 32 - size - (position & 7) & (1 << size) - 1
                        position += size
                        if not value >> size - 1:
                            value += 1 - (1 << size)
                        predictions[index] += value
                    add_mean(place)
                    add_mean((predictions[index] + 32768 & 65535) - 32768)
                    if only_means:
                        continue
                    rank = 0
                    while rank < 63:
                        entry = steps[word[position >> 3] >> 16 - (position & 7) & 65535]
                        rank += entry >> 8
                        add_start(position)
                        add_place(place + rank)
                        position += entry & 255
                    if position > limit + 64:
                        break
        self.position, self.limit, self.predictions = position, limit, predictions
        for (starts, places, means), table, target in zip(records, self.tables, targets):
            means = np.array(means, np.int32).reshape(-1, 2)
            target[means[:, 0] >> 8, 0] = means[:, 1] << self.low
            if not only_means:
                self.store(starts, places, self.huffman[16 | table & 15], target)

    def store(self, starts, places, table, target):
        """Reads the values of the symbols at the bit positions `starts`, and stores them in `target`."""
        starts, places = np.frombuffer(starts, np.uint32), np.frombuffer(places, np.uint32)
        inside = (places & 255) < 64
        starts, places = starts[inside], places[inside]
        entries = table[self.words[starts >> 3] >> (16 - (starts & 7)) & 65535]
        size = (entries >> 8 & 15).astype(np.uint32)
        used = size > 0
        places, size = places[used], size[used]
        starts = starts[used] + (entries[used] & 255).astype(np.uint32)
        values = (self.words[starts >> 3] << (starts & 7) >> (32 - size)).astype(np.int32)
        size = size.astype(np.int32)
        values = np.where(values >> size - 1, values, values + 1 - (1 << size))
        target[places >> 8, places & 255] = values << self.low

    def blocks(self, first, last):
        """Yields the blocks of rows of the scan's only component, except those without data. Starts intervals."""
        wide = self.components[0].wide
        for row in range(first, last):
            for block in range(row * wide, row * wide + self.across):
                if self.interval:
                    if not self.left:
                        self.restart()
                    self.left -= 1
                if self.position < self.limit or self.run:
                    yield block

    def bits(self, positions):
        positions = np.frombuffer(positions, np.uint32)
        return self.words[positions >> 3] >> (31 - (positions & 7)) & 1

    def refined_means(self, first, last, targets):
        """Reads one more bit of each mean."""
        records = [(array.array("I"), array.array("I")) for _ in self.components]
        for row in range(first, last):
            plan = list(self.units(row, 0))
            for unit in range(self.across):
                if self.interval:
                    if not self.left:
                        self.restart()
                    self.left -= 1
                if self.position >= self.limit:
                    continue
                for index, block, step in plan:
                    starts, places = records[index]
                    starts.append(self.position)
                    places.append(block + unit * step)
                    self.position += 1
        for (starts, places), target in zip(records, targets):
            bits = self.bits(starts).astype(np.int16)
            target[np.frombuffer(places, np.uint32), 0] |= bits << self.low

    def band_rows(self, first, last, target):
        """Reads a band of coefficients for the first time."""
        word, table = self.word, self.huffman[16 | self.tables[0] & 15]
        steps, starts, places = steps_of(table, True), array.array("I"), array.array("I")
        add_start, add_place, before, stop = starts.append, places.append, self.start - 1, self.stop
        for block in self.blocks(first, last):
            if self.run:
                self.run -= 1
                continue
            position, rank, place = self.position, before, block << 8
            while rank < stop:
                entry = steps[word[position >> 3] >> 16 - (position & 7) & 65535]
                if entry >= BLOCK_END:
                    position += entry & 255
                    size = entry >> 8 & 15
                    self.run = (1 << size) - 1
                    if size:
                        self.run += word[position >> 3] >> 32 - size - (position & 7) & (1 << size) - 1
                        position += size
                    break
                rank += entry >> 8
                add_start(position)
                add_place(place + rank)
                position += entry & 255
            self.position = position
        self.store(starts, places, table, target)

    def refined_rows(self, first, last, target):
        """Reads one more bit of a band's coefficients, and the coefficients that were zero so far."""
        word, table, stop = self.word, self.huffman[16 | self.tables[0] & 15], self.stop
        codes, origin = memoryview(table), first * self.components[0].wide
        known = (target[origin : last * self.components[0].wide] != 0).astype(np.uint8).tobytes()
        old, old_starts, new, new_starts = (array.array("I") for _ in range(4))
        for block in self.blocks(first, last):
            position, rank, base = self.position, self.start, block - origin << 6
            while rank <= stop and not self.run:
                entry = codes[word[position >> 3] >> 16 - (position & 7) & 65535]
                position += entry & 255
                zeros, size = entry >> 12, entry >> 8 & 15
                if not size and zeros < 15:
                    self.run = 1 << zeros
                    if zeros:
                        self.run += word[position >> 3] >> 32 - zeros - (position & 7) & (1 << zeros) - 1
                        position += zeros
                    break
                start = position
                if size:  # like libjpeg, reads one bit whatever `size` is
                    position += 1
                while rank <= stop:
                    if known[base + rank]:
                        old.append(block << 6 | rank)
                        old_starts.append(position)
                        position += 1
                    elif zeros:
                        zeros -= 1
                    else:
                        break
                    rank += 1
                if size and rank <= stop:
                    new.append(block << 6 | rank)
                    new_starts.append(start)
                rank += 1
            if self.run:
                self.run -= 1
                end = base + stop + 1
                found = known.find(1, base + rank, end)
                while found >= 0 and position < self.limit:
                    old.append(found + (origin << 6))
                    old_starts.append(position)
                    position += 1
                    found = known.find(1, found + 1, end)
            self.position = position
        flat, old, new = target.reshape(-1), np.frombuffer(old, np.uint32), np.frombuffer(new, np.uint32)
        values = flat[old]
        more = (self.bits(old_starts) != 0) & (values & 1 << self.low == 0)
        flat[old] = values + np.where(more, np.sign(values) << self.low, 0).astype(np.int16)
        flat[new] = np.where(self.bits(new_starts), 1 << self.low, -1 << self.low)


def inverse_dct(coefficients, quantization):
    """Returns the samples of blocks as an array of 8 rows, 8 columns and all blocks. The arithmetic is that of
    libjpeg's `jidctint.c`: fixed-point numbers with 13 bits, of which 2 are kept between the two passes."""
    blocks = (coefficients * quantization).T[RANK].reshape(8, 8, -1)
    for shift in 11, 18:
        even, odd = blocks[0::2], blocks[1::2]
        turned = (even[1] + even[3]) * 4433
        low, high = turned - even[3] * 15137, turned + even[1] * 6270
        first, second = even[0] + even[2] << 13, even[0] - even[2] << 13
        sums = first + high, second + low, second - low, first - high
        d3, d2, d1, d0 = odd
        z1, z2, z3, z4 = d0 + d3, d1 + d2, d0 + d2, d1 + d3
        z5 = (z3 + z4) * 9633
        z1, z2, z3, z4 = z1 * -7373, z2 * -20995, z3 * -16069 + z5, z4 * -3196 + z5
        parts = d3 * 12299 + z1 + z4, d2 * 25172 + z2 + z3, d1 * 16819 + z2 + z4, d0 * 2446 + z1 + z3
        half = 1 << shift - 1
        rows = [each + part + half >> shift for each, part in zip(sums, parts)]
        rows += [each - part + half >> shift for each, part in zip(sums[::-1], parts[::-1])]
        blocks = np.stack(rows, 1)  # the second pass transforms columns, and its result has rows first
    return np.clip(blocks + 128, 0, 255).astype(np.uint8)


def upsample(component, frame, first, last):
    """Returns rows of samples in the size of the image. Like libjpeg, interpolates between two samples if there are
    half as many as pixels, and repeats samples otherwise."""
    plane, width = component.plane[: component.height, : component.width], component.width
    right, down = frame.h // component.h, frame.v // component.v
    if right == down == 1:
        return plane[first:last]
    rows = np.arange(first, last)
    interpolates = right == 1 or right == 2 and width > 2
    if down == 2 and interpolates:
        near = rows >> 1
        far = np.clip(np.where(rows & 1, near + 1, near - 1), 0, component.height - 1)
        samples = plane[near].astype(np.int32) * 3 + plane[far]
        if right == 1:
            return (samples + np.where(rows & 1, 2, 1)[:, None] >> 2).astype(np.uint8)
        scale, before, after = 4, 8, 7
    elif down == 1 and right == 2 and interpolates:
        samples, scale, before, after = plane[first:last].astype(np.int32), 2, 1, 2
    else:
        return plane[rows // down].repeat(right, 1)[:, : frame.width]
    wide = np.empty((last - first, width, 2), np.int32)
    triple = samples * 3
    wide[:, 1:, 0] = triple[:, 1:] + samples[:, :-1] + before
    wide[:, :-1, 1] = triple[:, :-1] + samples[:, 1:] + after
    wide[:, 0, 0], wide[:, -1, 1] = samples[:, 0] * 4 + before, samples[:, -1] * 4 + after
    if scale == 2:
        wide[:, 0, 0], wide[:, -1, 1] = samples[:, 0] * 4, samples[:, -1] * 4
    return (wide >> scale).astype(np.uint8).reshape(last - first, -1)[:, : frame.width]


def color_space(frame, jfif, adobe):
    """Returns the color space of the components, with the rules of libjpeg."""
    names = [each.name for each in frame.components]
    if len(names) == 1:
        return "L"
    if len(names) == 4:
        return "CMYK" if adobe in (None, 0) else "YCCK"
    if jfif:
        return "YCbCr"
    if adobe is not None:
        return "YCbCr" if adobe else "RGB"
    return "RGB" if names == [82, 71, 66] else "YCbCr"


def rgb_of(luma, blue, red):
    """Converts YCbCr to RGB with the constants of libjpeg's `jdcolor.c`."""
    luma, blue, red = luma.astype(np.int32), blue.astype(np.int32) - 128, red.astype(np.int32) - 128
    colors = (
        luma + (red * 91881 + 32768 >> 16),
        luma + (blue * -22554 - red * 46802 + 32768 >> 16),
        luma + (blue * 116130 + 32768 >> 16),
    )
    return [np.clip(each, 0, 255).astype(np.uint8) for each in colors]


def converted(planes, space, wanted):
    """Converts samples to the components of a raw mode."""
    if wanted == "L":
        if space == "RGB":
            red, green, blue = (each.astype(np.int32) for each in planes)
            return [(red * 19595 + green * 38470 + blue * 7471 + 32768 >> 16).astype(np.uint8)]
        if space in ("L", "YCbCr"):
            return planes[:1]
    elif wanted == "RGB":
        if space == "YCbCr":
            return rgb_of(*planes)
        if space == "L":
            return planes * 3
    elif wanted.startswith("CMYK") and space == "YCCK":
        return [255 - each for each in rgb_of(*planes[:3])] + planes[3:]
    if space == wanted.partition(";")[0]:
        return planes
    raise Broken


def write_pixels(decoder, frame, space):
    state, reduction, wanted = decoder.state, decoder.reduction, decoder.rawmode
    for first in range(0, frame.height, STRIP_ROWS):
        last = min(first + STRIP_ROWS, frame.height)
        planes = [
            upsample(each, frame, first, last)
            for each in frame.components
            if wanted != "L" or each is frame.components[0] or space == "RGB"
        ]
        pixels = np.stack(converted(planes, space, wanted), -1)
        if reduction > 1:
            pixels = reduced(pixels, reduction)
        top = state.yoff + first // reduction
        raw = Image._getdecoder(decoder.mode, "raw", wanted)
        raw.setimage(decoder.im, (state.xoff, top, state.xoff + state.xsize, top + len(pixels)))
        if raw.decode(pixels.tobytes())[1]:
            raise Broken


def reduced(pixels, factor):
    """Averages the pixels of each square, whose side is `factor` pixels long."""
    high, wide = pixels.shape[:2]
    pixels = np.pad(pixels, ((0, -high % factor), (0, -wide % factor), (0, 0)), "edge")
    pixels = pixels.reshape(-1, factor, pixels.shape[1] // factor, factor, pixels.shape[2])
    return (pixels.sum((1, 3), np.int32) + factor * factor // 2 >> (factor * factor).bit_length() - 1).astype(np.uint8)
