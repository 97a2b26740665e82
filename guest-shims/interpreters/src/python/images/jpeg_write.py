"""Encodes JPEG files for Pillow, whose own encoder needs libjpeg. Runs inside the guest, with numpy.

Sequential files equal those of libjpeg to the byte: the color conversion, the DCT, the quantization and the Huffman
tables are the same. Progressive files have the same pixels, but fewer scans and no successive approximation.
"""

import numpy as np
from PIL import Image, ImageFile

STRIP_BLOCKS = 4096  # blocks per DCT
BAD_CONFIGURATION = -8  # in `ImageFile.ERRORS`

# Zigzag order: the position of each coefficient in its block, by rank in the file.
NATURAL = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14,
    21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60,
    61, 54, 47, 55, 62, 63,
)  # fmt: skip

# The example tables of ITU-T T.81, annex K: quantization in rows, and Huffman codes as counts by length and symbols.
LUMA = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
    51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121,
    120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMA = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99,
    99, 99, 99, 99,
) + (99,) * 32  # fmt: skip
TABLES = [
    (bytes.fromhex(counts), bytes.fromhex(symbols))
    for counts, symbols in (
        ("00010501010101010100000000000000", "000102030405060708090a0b"),
        (
            "0002010303020403050504040000017d",
            "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435"
            "363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798"
            "999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4"
            "f5f6f7f8f9fa",
        ),
        ("00030101010101010101010000000000", "000102030405060708090a0b"),
        (
            "00020102040403040705040400010277",
            "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a"
            "35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a9293949596"
            "9798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4"
            "f5f6f7f8f9fa",
        ),
    )
]
BITS = np.array([value.bit_length() for value in range(1 << 12)], np.int64)


class JpegEncoder(ImageFile.PyEncoder):
    """Pillow's `jpeg` encoder."""

    def init(self, args):
        (
            self.rawmode, self.quality, self.progressive, smooth, self.optimize, self.keep_rgb, self.stream, self.dpi,
            self.subsampling, self.restart_blocks, self.restart_rows, self.qtables, self.comment, self.extra, self.exif,
        ) = args  # fmt: skip
        if smooth:
            raise ValueError("`smooth` is not supported; remove it, or blur the image before you save it")
        self.pieces = None

    def encode(self, bufsize):
        if self.pieces is None:
            space = {"L": "L", "RGB": "RGB", "YCbCr": "YCbCr"}.get(self.rawmode, "CMYK")
            if self.keep_rgb and space == "RGB" and self.subsampling > 0:
                return 0, BAD_CONFIGURATION, b""
            self.pieces = File(self, space).pieces()
        piece = next(self.pieces, None)
        return (0, 1, b"") if piece is None else (len(piece), 0, piece)


class Component:
    def __init__(self, name, table, kind):
        self.name, self.table, self.kind, self.h, self.v = name, table, kind, 1, 1


class File:
    """Encodes one image as a file. A *unit* is an MCU, and a *mean* is a DC coefficient."""

    def __init__(self, encoder, space):
        self.encoder, self.space = encoder, space
        self.width, self.height = encoder.state.xsize, encoder.state.ysize
        self.as_rgb = space == "RGB" and encoder.keep_rgb
        in_ycc = space in ("RGB", "YCbCr") and not self.as_rgb
        names = b"RGB" if self.as_rgb else b"CMYK" if space == "CMYK" else b"\1\2\3" if in_ycc else b"\1"
        self.components = [
            Component(name, *((index > 0,) * 2 if in_ycc else (0, 0))) for index, name in enumerate(names)
        ]
        if len(names) > 1 and (in_ycc or encoder.subsampling > 0):
            first = self.components[0]
            first.h, first.v = {0: (1, 1), 1: (2, 1)}.get(encoder.subsampling, (2, 2))
        self.quantization = self.quantization_tables()
        self.h, self.v = self.components[0].h, self.components[0].v
        self.across, self.down = -(-self.width // (8 * self.h)), -(-self.height // (8 * self.v))
        for each in self.components:
            each.wide, each.high = -(-self.width * each.h // (8 * self.h)), -(-self.height * each.v // (8 * self.v))
        if len(self.components) == 1:
            self.across, self.down = self.components[0].wide, self.components[0].high
        self.interval = encoder.restart_blocks
        if encoder.restart_rows > 0:
            self.interval = min(encoder.restart_rows * self.across, 65535)
        self.tables = {index: table for index, table in enumerate(TABLES)}

    def quantization_tables(self):
        """Returns the tables in row order, and assigns them to the components. Follows Pillow's `JpegEncode.c`."""
        encoder, most = self.encoder, 255
        if encoder.qtables:
            quality, given = 50 if encoder.quality == -1 else encoder.quality, encoder.qtables
            most = 32767 if encoder.quality == -1 else 255
            for index, each in enumerate(self.components):
                each.table = min(index, len(given) - 1)
        else:
            quality, given = 75 if encoder.quality == -1 else encoder.quality, (LUMA, CHROMA)
        quality = min(max(quality, 1), 100)
        scale = 5000 // quality if quality < 50 else 200 - quality * 2
        return [np.clip((np.array(table, np.int64) * scale + 50) // 100, 1, most).astype(np.int32) for table in given]

    def pieces(self):
        encoder = self.encoder
        if encoder.stream == 1:
            yield b"\xff\xd8" + self.dqt() + self.dht(
                range(2 * len({each.kind for each in self.components}))
            ) + b"\xff\xd9"
            return
        yield self.header()
        if encoder.progressive or encoder.optimize:
            yield from self.whole_image()
        else:
            yield (b"" if encoder.stream == 2 else self.dht(self.kinds(self.components))) + self.dri() + self.sos(
                self.components
            )
            stream = Stream(self)
            for row, blocks in self.strips():
                yield stream.write(*self.arranged(blocks))
            yield stream.end()
        yield b"\xff\xd9"

    def header(self):
        encoder = self.encoder
        dpi = [int(each) for each in encoder.dpi] if min(encoder.dpi) > 0 else None
        parts = [b"\xff\xd8"]
        if dpi or not (self.as_rgb or self.space == "CMYK"):
            density = b"\1" + b"".join(each.to_bytes(2) for each in dpi) if dpi else b"\0\0\1\0\1"
            parts.append(segment(0xE0, b"JFIF\0\1\1" + density + b"\0\0"))
        if self.as_rgb or self.space == "CMYK":
            parts.append(segment(0xEE, b"Adobe\0\x64\0\0\0\0\0"))
        if encoder.exif:
            parts.append(segment(0xE1, encoder.exif))
        if encoder.extra and encoder.stream != 2:
            parts.append(encoder.extra)
        if encoder.comment:
            comment = encoder.comment
            parts.append(segment(0xFE, comment.encode() if isinstance(comment, str) else comment))
        if encoder.stream != 2:
            parts.append(self.dqt())
        wide = any(self.quantization[each.table].max() > 255 for each in self.components)
        frame = b"\x08" + self.height.to_bytes(2) + self.width.to_bytes(2) + bytes([len(self.components)])
        for each in self.components:
            frame += bytes([each.name, each.h << 4 | each.v, each.table])
        parts.append(segment(0xC2 if encoder.progressive else 0xC1 if wide else 0xC0, frame))
        return b"".join(parts)

    def dqt(self):
        parts = []
        for index in dict.fromkeys(int(each.table) for each in self.components):
            table = self.quantization[index][list(NATURAL)]
            wide = table.max() > 255
            parts.append(
                segment(0xDB, bytes([wide << 4 | index]) + table.astype(">u2" if wide else np.uint8).tobytes())
            )
        return b"".join(parts)

    def kinds(self, components):
        return [
            int(index) for kind in dict.fromkeys(each.kind for each in components) for index in (2 * kind, 2 * kind + 1)
        ]

    def dht(self, kinds):
        return b"".join(
            segment(0xC4, bytes([(kind & 1) << 4 | kind >> 1]) + b"".join(self.tables[kind])) for kind in kinds
        )

    def dri(self):
        return segment(0xDD, self.interval.to_bytes(2)) if self.interval else b""

    def sos(self, components, start=0, stop=63, only=None):
        parts = [bytes([len(components)])]
        for each in components:
            parts.append(bytes([each.name, (0 if only == 1 else each.kind << 4) | (0 if only == 0 else each.kind)]))
        return segment(0xDA, b"".join(parts) + bytes([start, stop, 0]))

    def strips(self):
        """Yields strips of unit rows: the index of the first row, and the blocks of each component."""
        count = max(STRIP_BLOCKS // (self.across * sum(each.h * each.v for each in self.components)), 1)
        for row in range(0, self.down, count):
            rows = min(count, self.down - row)
            top, bottom = row * 8 * self.v, min((row + rows) * 8 * self.v, self.height)
            planes = self.planes(top, bottom)
            yield row, [self.blocks(each, plane, row, rows) for each, plane in zip(self.components, planes)]

    def planes(self, top, bottom):
        """Returns the samples of the pixel rows from `top` to `bottom`, by component."""
        state, raw = self.encoder.state, Image._getencoder(self.encoder.mode, "raw", self.encoder.rawmode)
        raw.setimage(self.encoder.im, (state.xoff, state.yoff + top, state.xoff + self.width, state.yoff + bottom))
        data, done, size = [], 0, self.width * (bottom - top) * 4
        while not done:
            _, done, piece = raw.encode(size)
            data.append(piece)
        channels = {"L": 1, "CMYK": 4}.get(self.space, 3)
        pixels = np.frombuffer(b"".join(data), np.uint8).reshape(bottom - top, self.width, channels)
        planes = [pixels[:, :, channel] for channel in range(channels)]
        if self.space == "RGB" and not self.as_rgb:
            red, green, blue = (each.astype(np.int32) for each in planes)
            # The constants of libjpeg's `jccolor.c`.
            planes = [
                red * 19595 + green * 38470 + blue * 7471 + 32768 >> 16,
                red * -11059 - green * 21709 + (blue << 15) + 8421375 >> 16,
                (red << 15) - green * 27439 - blue * 5329 + 8421375 >> 16,
            ]
        return planes

    def blocks(self, component, plane, row, rows):
        """Returns the quantized coefficients of a component's blocks in a strip, including blocks that pad units."""
        right, down, wide = self.h // component.h, self.v // component.v, component.wide
        plane = plane.astype(np.int32)
        plane = np.pad(plane, ((0, -len(plane) % self.v), (0, wide * 8 * right - plane.shape[1])), "edge")
        if right == 2:
            plane = plane[:, 0::2] + plane[:, 1::2]
            if down == 2:
                plane = plane[0::2] + plane[1::2]
            bias = np.arange(plane.shape[1]) & 1
            plane = plane + bias + (down - 1) >> down
        high = min(rows * component.v, component.high - row * component.v)
        plane = np.pad(plane, ((0, high * 8 - len(plane)), (0, 0)), "edge")[: high * 8]
        found = dct(plane, self.quantization[component.table]).reshape(high, wide, 64)
        if len(self.components) == 1:
            return found
        # Like libjpeg, pads units with blocks whose only coefficient is the mean of the preceding block.
        blocks = np.zeros((rows * component.v, self.across * component.h, 64), np.int16)
        blocks[:high, :wide] = found
        blocks[:high, wide:, 0] = found[:, -1:, 0]
        for below in range(high, len(blocks)):
            blocks[below, :, 0] = blocks[below - 1, component.h - 1 :: component.h, 0].repeat(component.h)
        return blocks

    def arranged(self, blocks):
        """Arranges blocks for an interleaved scan: returns the blocks of each unit, and the component of each block."""
        units, owners = [], []
        for index, (each, part) in enumerate(zip(self.components, blocks)):
            h, v = (each.h, each.v) if len(blocks) > 1 else (1, 1)
            part = part.reshape(-1, v, self.across, h, 64).transpose(0, 2, 1, 3, 4)
            units.append(part.reshape(-1, v * h, 64))
            owners += [index] * (v * h)
        return np.concatenate(units, 1), owners

    def whole_image(self):
        """Encodes the scans with optimal Huffman codes, which requires all coefficients at once."""
        strips = [blocks for _, blocks in self.strips()]
        blocks = [np.concatenate(parts) for parts in zip(*strips)]
        del strips
        if not self.encoder.progressive:
            yield from self.scan(self.components, *self.arranged(blocks))
            return
        yield from self.scan(self.components, *self.arranged(blocks), 0, 0)
        bands = [(0, 1, 5), *((index, 1, 63) for index in range(1, len(blocks))), (0, 6, 63)]
        for index, start, stop in bands:
            each = self.components[index]
            part = blocks[index][: each.high, : each.wide].reshape(-1, 1, 64)
            yield from self.scan([each], part, [index], start, stop)

    def scan(self, components, units, owners, start=0, stop=63):
        stream = Stream(self, start, stop)
        counts = stream.count(units, owners)
        kinds = [kind for kind in self.kinds(components) if not (kind & 1 and stop == 0 or not kind & 1 and start)]
        for kind in kinds:
            self.tables[kind] = optimal_table(counts[kind])
        stream = Stream(self, start, stop)
        only = None if stop - start == 63 else 0 if not stop else 1
        yield self.dht(kinds) + (b"" if start else self.dri()) + self.sos(components, start, stop, only)
        size = max(STRIP_BLOCKS // units.shape[1], 1)
        for first in range(0, len(units), size):
            yield stream.write(units[first : first + size], owners)
        yield stream.end()


class Stream:
    """Encodes the blocks of one scan as bits."""

    def __init__(self, file, start=0, stop=63):
        self.file, self.start, self.stop, self.interval = file, start, stop, file.interval
        self.last, self.done, self.carry, self.carried = [0] * len(file.components), 0, 0, 0
        self.codes, self.lengths = np.zeros((4, 256), np.int64), np.zeros((4, 256), np.int64)
        for kind, (counts, symbols) in file.tables.items():
            code, rest = 0, iter(symbols)
            for length, count in enumerate(counts, 1):
                for _ in range(count):
                    symbol = next(rest)
                    self.codes[kind, symbol], self.lengths[kind, symbol] = code, length
                    code += 1
                code <<= 1

    def intervals(self, units):
        """Splits units at restart markers: yields `True` if a marker precedes the part, and the part."""
        at = 0
        while at < len(units):
            restarts = bool(self.interval and self.done and self.done % self.interval == 0)
            room = self.interval - self.done % self.interval if self.interval else len(units)
            part = units[at : at + room]
            at += len(part)
            self.done += len(part)
            if restarts:
                self.last = [0] * len(self.last)
            yield restarts, part

    def symbols(self, units, owners):
        """Returns the symbols of units, as four arrays: table, symbol, value, and size of the value in bits."""
        start, stop, kinds = self.start, self.stop, np.array([each.kind for each in self.file.components], np.int64)
        owners = np.array(owners)
        blocks = units.reshape(-1, 64)
        kind = np.tile(kinds[owners], len(units)) * 2
        has_mean = int(start == 0)
        which, rank = np.nonzero(blocks[:, max(start, 1) : stop + 1])
        found = blocks[which, rank + max(start, 1)].astype(np.int64)
        before = np.full(len(rank), -1)
        same = which[1:] == which[:-1]
        before[1:][same] = rank[:-1][same]
        run = rank - before - 1
        entries = (run >> 4) + 1
        # A block whose last coefficient is zero gets an end symbol, unless the scan has only means.
        ends = np.full(len(blocks), stop > 0)
        final = stop - max(start, 1)
        ends[which[rank == final]] = False
        total = np.bincount(which, entries, len(blocks)).astype(np.int64) + ends + has_mean
        after = np.cumsum(total)
        count = int(after[-1])
        table, symbol = np.repeat(kind | 1, total), np.full(count, 0xF0, np.int64)
        value = np.zeros(count, np.int64)
        size = np.zeros(count, np.int64)
        # A nonzero coefficient is an entry with its value, after the entries of long zero runs.
        places = np.cumsum(entries) - 1 + (np.cumsum(ends + has_mean) - ends)[which]
        size[places] = BITS[np.abs(found)]
        symbol[places] = (run & 15) << 4 | size[places]
        value[places] = found
        symbol[after[ends] - 1] = 0
        if has_mean:
            heads = after - total
            differences = self.differences(units, owners).reshape(-1)
            table[heads] = kind
            value[heads] = differences
            size[heads] = symbol[heads] = BITS[np.abs(differences)]
        value += (value < 0) * ((1 << size) - 1)
        return table, symbol, value, size

    def differences(self, units, owners):
        """Returns the difference between each block's mean and that of the component's preceding block."""
        means = units[:, :, 0].astype(np.int64)
        differences = np.empty_like(means)
        for owner in set(owners.tolist()):
            own = means[:, owners == owner]
            flat = own.reshape(-1)
            differences[:, owners == owner] = np.diff(flat, prepend=self.last[owner]).reshape(own.shape)
            self.last[owner] = int(flat[-1])
        return differences

    def count(self, units, owners):
        """Returns the number of occurrences of each symbol, by table."""
        counts = np.zeros(1024, np.int64)
        size = max(STRIP_BLOCKS // units.shape[1], 1)
        for first in range(0, len(units), size):
            for _, part in self.intervals(units[first : first + size]):
                table, symbol, _, _ = self.symbols(part, owners)
                counts += np.bincount(table << 8 | symbol, minlength=1024)
        return counts.reshape(4, 256)

    def write(self, units, owners):
        """Encodes units. Returns the complete bytes, and keeps the remaining bits for the next call."""
        written = []
        for restarts, part in self.intervals(units):
            if restarts:
                number = (self.done - len(part)) // self.interval - 1 & 7
                written.append(self.end() + bytes([0xFF, 0xD0 | number]))
            table, symbol, value, size = self.symbols(part, owners)
            written.append(self.pack(self.codes[table, symbol] << size | value, self.lengths[table, symbol] + size))
        return b"".join(written)

    def pack(self, values, lengths):
        """Appends values to the remaining bits. Returns the complete bytes."""
        values = np.concatenate(([self.carry], values))
        lengths = np.concatenate(([self.carried], lengths))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        total = int(ends[-1])
        word, shifted = starts >> 4, values << (48 - lengths - (starts & 15))
        words = np.zeros((total >> 4) + 3)
        # No two values share a bit, so their sums are exact.
        for index, shift in enumerate((32, 16, 0)):
            words += np.bincount(word + index, shifted >> shift & 65535, len(words))
        data = words.astype(">u2").tobytes()
        self.carried = total & 7
        self.carry = data[total >> 3] >> 8 - self.carried
        return data[: total >> 3].replace(b"\xff", b"\xff\0")

    def end(self):
        """Returns the last byte, padded with ones."""
        piece = self.pack(np.array([0x7F]), np.array([7]))
        self.carry = self.carried = 0
        return piece


def segment(marker, body):
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2) + body


def dct(plane, quantization):
    """Returns the quantized coefficients of a plane's blocks. The arithmetic is that of libjpeg's `jfdctint.c`:
    fixed-point numbers with 13 bits, of which 2 are kept between the two passes."""
    high, wide = plane.shape[0] // 8, plane.shape[1] // 8
    blocks = plane.reshape(high, 8, wide, 8).transpose(3, 1, 0, 2).reshape(8, 8, -1) - 128
    for shift in 11, 15:
        first, last = blocks[:4], blocks[:3:-1]
        s0, s1, s2, s3 = first + last
        d0, d1, d2, d3 = first - last
        even, odd = s0 + s3, s1 + s2
        if shift == 11:
            mean, middle = even + odd << 2, even - odd << 2
        else:
            mean, middle = even + odd + 2 >> 2, even - odd + 2 >> 2
        turned = (s1 - s2 + s0 - s3) * 4433
        second, sixth = turned + (s0 - s3) * 6270, turned - (s1 - s2) * 15137
        z1, z2, z3, z4 = d3 + d0, d2 + d1, d3 + d1, d2 + d0
        z5 = (z3 + z4) * 9633
        z1, z2, z3, z4 = z1 * -7373, z2 * -20995, z3 * -16069 + z5, z4 * -3196 + z5
        half = 1 << shift - 1
        rows = d0 * 12299 + z1 + z4, second, d1 * 25172 + z2 + z3, d2 * 16819 + z2 + z4, sixth, d3 * 2446 + z1 + z3
        one, two, three, five, six, seven = (each + half >> shift for each in rows)
        blocks = np.stack((mean, one, two, three, middle, five, six, seven), 1)
    divisors = (quantization << 3).reshape(64, 1)
    blocks = blocks.swapaxes(0, 1).reshape(64, -1)
    sizes = (np.abs(blocks) + (divisors >> 1)) // divisors
    return (np.sign(blocks) * sizes).astype(np.int16)[list(NATURAL)].T


def optimal_table(counts):
    """Returns the Huffman table for these symbol counts. Follows libjpeg's `jpeg_gen_optimal_table`."""
    frequency = {symbol: int(count) for symbol, count in enumerate(counts) if count}
    frequency[256] = 1  # reserves the code whose bits are all ones
    members = {symbol: [symbol] for symbol in frequency}
    sizes = dict.fromkeys(frequency, 0)
    while len(frequency) > 1:
        least = min(frequency, key=lambda symbol: (frequency[symbol], -symbol))
        count = frequency.pop(least)
        next_one = min(frequency, key=lambda symbol: (frequency[symbol], -symbol))
        frequency[least] = count + frequency.pop(next_one)
        members[least] += members.pop(next_one)
        for symbol in members[least]:
            sizes[symbol] += 1
    lengths = [0] * 300
    for size in sizes.values():
        lengths[size] += 1
    for size in range(299, 16, -1):
        while lengths[size] > 0:
            shorter = size - 2
            while not lengths[shorter]:
                shorter -= 1
            lengths[size] -= 2
            lengths[size - 1] += 1
            lengths[shorter + 1] += 2
            lengths[shorter] -= 1
    longest = max(size for size in range(17) if lengths[size])
    lengths[longest] -= 1  # the reserved code
    del sizes[256]
    return bytes(lengths[1:17]), bytes(sorted(sizes, key=lambda symbol: (sizes[symbol], symbol)))
