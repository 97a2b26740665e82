"""Decodes and encodes lossless WebP images (VP8L, RFC 9649). Runs inside the guest, with numpy.

Pixels are arrays of 32-bit words with alpha in the highest byte, then red, green and blue.
"""

import array
import heapq

import numpy as np

ROWS = 512  # rows of pixels that are predicted in one step
LENGTH_ORDER = 17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
# The pixels that the distance codes 1 to 120 refer to. The high four bits are the rows above the current pixel, the low
# four bits are 8 minus the columns to the left.
NEAR = bytes.fromhex(
    "1807171928062729161a262a38053739151b363a252b48044749141c353b464a242c58454b343c035759131d565a232d444c555b333d6802"
    "6769121e666a222e545c434d656b323e78017779535d111f646c424e767a212f757b313f636d525e00747c414f1020626e30737d515f4072"
    "7e616f50717f6070"
)
MOST_COPIED = 4096  # pixels in one copy
PART = 1 << 15  # pixels that are encoded in one step
TILE_BITS = 4  # binary logarithm of the side of a square with one prediction mode
MODES = 1, 2, 11, 12, 7, 13  # the prediction modes that the encoder uses


class Broken(Exception):
    """The image is invalid."""


def decode(data, width, height):
    """Returns the pixels of an image stream, without its header, as an array of rows."""
    reader = Reader(data)
    transforms, seen, inner = [], set(), width
    while reader.bits(1):
        kind = reader.bits(2)
        if kind in seen:
            raise Broken
        seen.add(kind)
        if kind < 2:
            bits = reader.bits(3) + 2
            transforms.append((kind, inner, bits, reader.image(-(-inner >> bits), -(-height >> bits))))
        elif kind == 2:
            transforms.append((kind, inner, 0, None))
        else:
            size = reader.bits(8) + 1
            colors = reader.image(size, 1).view(np.uint8).reshape(-1, 4)
            palette = np.zeros((256, 4), np.uint8)
            palette[:size] = np.cumsum(colors, 0, np.uint8)
            bits = 3 if size <= 2 else 2 if size <= 4 else 1 if size <= 16 else 0
            transforms.append((kind, inner, bits, palette.view(np.uint32).reshape(-1)))
            inner = -(-inner >> bits)
    pixels = reader.image(inner, height, True)
    for kind, inner, bits, parameters in reversed(transforms):
        if kind == 0:
            predict(pixels, bits, parameters)
        elif kind == 1:
            add_colors(pixels, bits, parameters)
        elif kind == 2:
            channels = pixels.view(np.uint8).reshape(*pixels.shape, 4)
            channels[..., 0] += channels[..., 1]
            channels[..., 2] += channels[..., 1]
        else:
            indices = pixels >> 8 & 255
            if bits:
                each = 8 >> bits
                shifts = np.arange(1 << bits, dtype=np.uint32) * each
                indices = (indices[:, :, None] >> shifts & (1 << each) - 1).reshape(height, -1)[:, :inner]
            pixels = parameters[indices]
    return pixels


def header(data):
    """Returns the width, the height, and 1 if alpha is used."""
    if len(data) < 5 or data[0] != 0x2F or data[4] >> 5:
        raise Broken
    bits = int.from_bytes(data[1:5], "little")
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bits >> 28 & 1


class Reader:
    """Reads a bit stream, least significant bit first."""

    def __init__(self, data):
        padded = bytes(data) + bytes(64 - len(data) % 4)
        words = np.empty(len(padded) - 4, np.uint32)  # the 32 bits that start at each byte
        for offset in range(4):
            words[offset::4] = np.frombuffer(padded, "<u4", len(words[offset::4]), offset)
        self.word, self.position, self.limit = memoryview(words), 0, 8 * len(data)

    def bits(self, count):
        position = self.position
        self.position += count
        if self.position > self.limit:
            raise Broken
        return self.word[position >> 3] >> (position & 7) & (1 << count) - 1

    def code(self, size):
        """Reads a prefix code. Returns a table indexed by the next bits: 16 times the symbol plus its length."""
        lengths = [0] * size
        if self.bits(1):
            two, wide = self.bits(1), self.bits(1)
            symbols = [self.bits(8 if wide else 1)]
            if two:
                symbols.append(self.bits(8))
            for symbol in symbols:
                if symbol >= size:
                    raise Broken
                lengths[symbol] = 1
        else:
            inner = [0] * 19
            for place in LENGTH_ORDER[: 4 + self.bits(4)]:
                inner[place] = self.bits(3)
            entries, mask = table_of(inner)
            left = 2 + self.bits(2 + 2 * self.bits(3)) if self.bits(1) else size
            at, last = 0, 8
            while at < size and left:
                left -= 1
                entry = entries[self.peek(mask)]
                self.position += entry & 15
                symbol = entry >> 4
                if symbol < 16:
                    lengths[at] = symbol
                    last = symbol or last
                    at += 1
                    continue
                value, count = (
                    (last, 3 + self.bits(2))
                    if symbol == 16
                    else (0, 3 + self.bits(3) if symbol == 17 else 11 + self.bits(7))
                )
                if at + count > size:
                    raise Broken
                lengths[at : at + count] = [value] * count
                at += count
        return table_of(lengths)

    def peek(self, mask):
        if self.position >= self.limit:
            raise Broken
        return self.word[self.position >> 3] >> (self.position & 7) & mask

    def image(self, width, height, is_main=False):
        """Reads the pixels of the main image, or the parameters of a transform or of prefix codes."""
        cache_bits = self.bits(4) if self.bits(1) else 0
        if cache_bits > 11:
            raise Broken
        groups, group_bits = None, 0
        if is_main and self.bits(1):
            group_bits = self.bits(3) + 2
            groups = self.image(-(-width >> group_bits), -(-height >> group_bits)) >> 8 & 0xFFFF
        count = int(groups.max()) + 1 if groups is not None else 1
        used = set(np.unique(groups).tolist()) if groups is not None else {0}
        codes = []
        for index in range(count):
            code = [self.code(size) for size in (280 + (1 << cache_bits if cache_bits else 0), 256, 256, 256, 40)]
            codes.append([part for entries in code for part in entries] if index in used else None)
        total = width * height
        pixels = array.array("I", bytes(4 * total))
        near = [max(1, 8 - (each & 15) + (each >> 4) * width) for each in NEAR]
        word, position, limit = self.word, self.position, self.limit
        cache, shift, cached = [0] * (1 << cache_bits), 32 - cache_bits, 0
        at, span = 0, 1 << group_bits
        ending = 0  # the pixel at which the codes may change next
        while at < total:
            if at >= ending:
                if groups is None:
                    ending, code = total, codes[0]
                else:
                    row, column = divmod(at, width)
                    code = codes[groups[row >> group_bits, column >> group_bits]]
                    ending = at + min(span - (column & span - 1), width - column)
                greens, green_mask, reds, red_mask, blues, blue_mask, alphas, alpha_mask, steps, step_mask = code
                plain = not (red_mask | blue_mask | alpha_mask)
                constant = (alphas[0] >> 4) << 24 | (reds[0] >> 4) << 16 | blues[0] >> 4
            entry = greens[word[position >> 3] >> (position & 7) & green_mask]
            position += entry & 15
            symbol = entry >> 4
            if symbol < 256:
                if plain:
                    pixels[at] = constant | symbol << 8
                else:
                    entry = reds[word[position >> 3] >> (position & 7) & red_mask]
                    position += entry & 15
                    value = symbol << 8 | entry >> 4 << 16
                    entry = blues[word[position >> 3] >> (position & 7) & blue_mask]
                    position += entry & 15
                    value |= entry >> 4
                    entry = alphas[word[position >> 3] >> (position & 7) & alpha_mask]
                    position += entry & 15
                    pixels[at] = value | entry >> 4 << 24
                at += 1
            elif symbol < 280:
                size = symbol - 256
                if size >= 4:
                    extra = size - 2 >> 1
                    size = (2 + (size & 1) << extra) + (word[position >> 3] >> (position & 7) & (1 << extra) - 1)
                    position += extra
                entry = steps[word[position >> 3] >> (position & 7) & step_mask]
                position += entry & 15
                step = entry >> 4
                if step >= 4:
                    extra = step - 2 >> 1
                    step = (2 + (step & 1) << extra) + (word[position >> 3] >> (position & 7) & (1 << extra) - 1)
                    position += extra
                size, step = size + 1, step + 1
                step = near[step - 1] if step <= 120 else step - 120
                if step > at or size > total - at:
                    raise Broken
                if step >= size:
                    pixels[at : at + size] = pixels[at - step : at - step + size]
                else:
                    part = pixels[at - step : at]
                    pixels[at : at + size] = (part * (size // step + 1))[:size]
                at += size
            else:
                while cached < at:
                    value = pixels[cached]
                    cache[(value * 0x1E35A7BD & 0xFFFFFFFF) >> shift] = value
                    cached += 1
                pixels[at] = cache[symbol - 280]
                at += 1
            if position > limit:
                raise Broken
        self.position = position
        return np.frombuffer(pixels, np.uint32).reshape(height, width)


def table_of(lengths):
    """Returns the table of a prefix code, and the bit mask of its index. A code with one symbol takes no bits."""
    symbols = [symbol for symbol, length in enumerate(lengths) if length]
    if len(symbols) == 1:
        return [symbols[0] << 4], 0
    if not symbols:
        raise Broken
    longest = max(lengths)
    entries, code = [0] * (1 << longest), 0
    for length in range(1, longest + 1):
        for symbol in symbols:
            if lengths[symbol] == length:
                if code >> length:
                    raise Broken
                first = int(f"{code:0{length}b}"[::-1], 2)
                entries[first :: 1 << length] = [symbol << 4 | length] * (1 << longest - length)
                code += 1
        code <<= 1
    if code != 2 << longest:
        raise Broken  # the code is incomplete: some bits have no symbol
    return entries, (1 << longest) - 1


def mean(one, other):
    return (one & other) + ((one ^ other) >> 1)


def prediction(mode, left, top, right, corner):
    """Returns the prediction of pixels from the pixels to the left, above, above to the right and above to the left."""
    if mode == 0 or mode > 13:
        black = np.zeros_like(left)
        black[..., 3] = 255
        return black
    if mode < 5:
        return (left, top, right, corner)[mode - 1]
    if mode == 5:
        return mean(mean(left, right), top)
    if mode in (6, 7):
        return mean(left, corner if mode == 6 else top)
    if mode in (8, 9):
        return mean(top, corner if mode == 8 else right)
    if mode == 10:
        return mean(mean(left, corner), mean(top, right))
    left, top, corner = left.astype(np.int16), top.astype(np.int16), corner.astype(np.int16)
    if mode == 11:
        to_left, to_top = np.abs(top - corner).sum(-1), np.abs(left - corner).sum(-1)
        return np.where((to_left < to_top)[..., None], left, top).astype(np.uint8)
    if mode == 12:
        return np.clip(left + top - corner, 0, 255).astype(np.uint8)
    both = mean(left, top)
    return np.clip(both + (both - corner + (both < corner) >> 1), 0, 255).astype(np.uint8)


def predict(pixels, bits, parameters):
    """Adds the predictions to the differences in `pixels`.

    A pixel depends on its left neighbor and on three pixels above, so all pixels with the same sum of their column and
    twice their row are independent. They form one row of `slanted`. Their neighbors are in the three rows before it."""
    height, width = pixels.shape
    channels = pixels.view(np.uint8).reshape(height, width, 4)
    modes = (parameters >> 8 & 15).astype(np.uint8)
    above = np.zeros((width + 1, 4), np.uint8)
    for first in range(0, height, ROWS):
        rows = min(ROWS, height - first)
        mode = modes[np.arange(first, first + rows) >> bits][:, np.arange(width) >> bits]
        mode[:, 0] = 2
        if not first:
            mode[0], mode[0, 0] = 1, 0
        # On the second axis of `slanted`, index 0 is the row above. On its first axis, index 3 is the first sum.
        slanted = np.zeros((width + 2 * rows + 4, rows + 1, 4), np.uint8)
        slanted_modes = np.full((width + 2 * rows + 4, rows + 1), 255, np.uint8)
        slanted[1 : width + 2, 0] = above
        for row in range(rows):
            at = 3 + 2 * row
            slanted[at : at + width, row + 1] = channels[first + row]
            slanted_modes[at : at + width, row + 1] = mode[row]
        for at in range(3, 3 + width + 2 * (rows - 1)):
            low, high = max((at - 3 - width) // 2 + 1, 0), min((at - 3) // 2 + 1, rows)
            here = slice(low + 1, high + 1)
            over = slice(low, high)
            left, top, right, corner = (
                slanted[at - 1, here],
                slanted[at - 2, over],
                slanted[at - 1, over],
                slanted[at - 3, over],
            )
            kinds = slanted_modes[at, here]
            target = slanted[at, here]
            present = np.flatnonzero(np.bincount(kinds, minlength=256)[:16])
            for each in present:
                if len(present) == 1:
                    target += prediction(each, left, top, right, corner)
                else:
                    those = np.flatnonzero(kinds == each)
                    target[those] += prediction(each, left[those], top[those], right[those], corner[those])
            # The pixel above and to the right of a row's last pixel is the first pixel of that row.
            if at & 1:
                row = (at - 3) // 2
                if row < rows:
                    slanted[1 + 2 * row + width, row] = slanted[at, row + 1]
        for row in range(rows):
            at = 3 + 2 * row
            channels[first + row] = slanted[at : at + width, row + 1]
        above[:width] = channels[first + rows - 1]


def add_colors(pixels, bits, parameters):
    """Adds multiples of green to red and blue, and multiples of red to blue."""
    height, width = pixels.shape
    for first in range(0, height, ROWS):
        part = pixels[first : first + ROWS]
        factors = parameters[np.arange(first, first + len(part)) >> bits][:, np.arange(width) >> bits]
        factors = np.ascontiguousarray(factors).view(np.int8).reshape(*part.shape, 4).astype(np.int32)
        channels = part.view(np.int8).reshape(*part.shape, 4)
        green = channels[..., 1].astype(np.int32)
        channels[..., 2] += (factors[..., 0] * green >> 5).astype(np.int8)
        red = channels[..., 2].astype(np.int32)
        channels[..., 0] += ((factors[..., 1] * green >> 5) + (factors[..., 2] * red >> 5)).astype(np.int8)


def encode(pixels, has_alpha):
    """Returns a complete image stream, with its header."""
    height, width = pixels.shape
    writer = Writer()
    writer.put(0x2F, 8)
    writer.put(width - 1, 14)
    writer.put(height - 1, 14)
    writer.put(int(has_alpha), 4)  # a bit for alpha, and the version 0 in three bits
    colors = np.unique(pixels[:: max(height // 64, 1)])
    if len(colors) <= 256:
        colors = np.unique(pixels)
    if len(colors) <= 256:
        pixels = write_palette(writer, pixels, colors)
    else:
        pixels = pixels.copy()
        channels = pixels.view(np.uint8).reshape(height, width, 4)
        channels[..., 0] -= channels[..., 1]
        channels[..., 2] -= channels[..., 1]
        writer.put(0b101, 3)  # green is subtracted
        pixels = write_predictions(writer, pixels)
    writer.put(0, 1)  # no more transforms
    write_image(writer, pixels, True)
    return writer.end()


def write_palette(writer, pixels, colors):
    """Writes a palette. Returns an image of indices. With few colors, a pixel holds several indices."""
    height, width = pixels.shape
    size = len(colors)
    writer.put(0b111, 3)
    writer.put(size - 1, 8)
    channels = colors.view(np.uint8).reshape(-1, 4)
    differences = np.diff(channels, axis=0, prepend=np.zeros((1, 4), np.uint8))
    write_image(writer, np.ascontiguousarray(differences).view(np.uint32).reshape(1, -1))
    indices = np.searchsorted(colors, pixels).astype(np.uint32)
    bits = 3 if size <= 2 else 2 if size <= 4 else 1 if size <= 16 else 0
    indices = np.pad(indices, ((0, 0), (0, -width % (1 << bits)))).reshape(height, -1, 1 << bits)
    shifts = np.arange(1 << bits, dtype=np.uint32) * (8 >> bits)
    return (indices << shifts).sum(-1, np.uint32) << 8 | 0xFF000000


def write_predictions(writer, pixels):
    """Chooses and writes the prediction mode of each square. Returns the differences from the predictions."""
    height, width = pixels.shape
    high, wide = -(-height >> TILE_BITS), -(-width >> TILE_BITS)
    modes, differences = np.zeros((high, wide), np.uint32), np.empty_like(pixels)
    channels = pixels.view(np.uint8).reshape(height, width, 4)
    results = differences.view(np.uint8).reshape(height, width, 4)
    for first in range(0, height, 1 << TILE_BITS):
        part = channels[first : first + (1 << TILE_BITS)]
        above = channels[max(first - 1, 0) : first + len(part) - 1] if first else np.concatenate((part[:1], part[:-1]))
        left, corner = np.roll(part, 1, 1), np.roll(above, 1, 1)
        best = None
        for mode in MODES:
            found = part - prediction(mode, left, above, above, corner)
            sizes = np.abs(found.view(np.int8).astype(np.int16)).sum((0, 2), np.int32)
            costs = np.add.reduceat(sizes, np.arange(0, width, 1 << TILE_BITS))
            if best is None:
                best, chosen = costs, np.full(wide, mode, np.uint32)
                results[first : first + len(part)] = found
                continue
            better = costs < best
            best[better], chosen[better] = costs[better], mode
            columns = better.repeat(1 << TILE_BITS)[:width]
            results[first : first + len(part), columns] = found[:, columns]
        modes[first >> TILE_BITS] = chosen
    results[1:, 0] = channels[1:, 0] - channels[:-1, 0]
    results[0, 1:] = channels[0, 1:] - channels[0, :-1]
    results[0, 0] = channels[0, 0] - np.array((0, 0, 0, 255), np.uint8)
    writer.put(0b001, 3)
    writer.put(TILE_BITS - 2, 3)
    write_image(writer, modes << 8 | 0xFF000000)
    return differences


def write_image(writer, pixels, is_main=False):
    """Writes pixels with one set of prefix codes. Runs of equal pixels become copies."""
    writer.put(0, 2 if is_main else 1)  # no color cache, and one set of codes
    flat = pixels.reshape(-1)
    parts = [flat[first : first + PART] for first in range(0, len(flat), PART)]
    counts = [np.zeros(size, np.int64) for size in (280, 256, 256, 256)]
    for part in parts:
        symbols, is_copy, _, _ = symbols_of(part)
        counts[0] += np.bincount(symbols[0], minlength=280)
        for channel in 1, 2, 3:
            counts[channel] += np.bincount(symbols[channel][~is_copy], minlength=256)
    tables = [write_code(writer, each) for each in counts]
    distances = np.zeros(40, np.int64)
    distances[1] = 1  # the distance code 2, the pixel to the left
    write_code(writer, distances)
    for part in parts:
        symbols, is_copy, rest, extra = symbols_of(part)
        bits = np.stack([codes[each] for (codes, _), each in zip(tables, symbols)], 1)
        sizes = np.stack([lengths[each] for (_, lengths), each in zip(tables, symbols)], 1)
        bits[is_copy, 1], sizes[is_copy, 1] = rest & (1 << extra) - 1, extra
        sizes[is_copy, 2:] = 0
        bits[sizes == 0] = 0
        writer.put_all(bits.reshape(-1), sizes.reshape(-1))


def symbols_of(flat):
    """Converts pixels to literals, and to copies of the preceding pixel. Returns the symbols by channel, a mask of the
    copies, and the values and sizes of the extra bits of the copies' lengths."""
    starts = np.flatnonzero(np.concatenate(([True], flat[1:] != flat[:-1])))
    sizes = np.diff(starts, append=len(flat))
    # The first pixel of a run is a literal. The rest of a long run is copied.
    copied = np.where(sizes > 4, sizes - 1, 0)
    counts = np.where(copied > 0, 1 + -(-copied // MOST_COPIED), sizes)
    run = np.repeat(np.arange(len(starts)), counts)
    within = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_copy = (within > 0) & (copied[run] > 0)
    values = flat[starts[run]].astype(np.int64)
    lengths = np.minimum(copied[run] - (within - 1) * MOST_COPIED, MOST_COPIED)[is_copy]
    # The prefix symbol of a length, and its extra bits.
    rest = np.maximum(lengths - 1, 1)
    top = np.frexp(rest.astype(np.float64))[1].astype(np.int64) - 1
    prefix = np.where(lengths <= 4, lengths - 1, 2 * top + (rest >> np.maximum(top - 1, 0) & 1))
    extra = np.where(lengths <= 4, 0, top - 1)
    symbols = [values >> shift & 255 for shift in (8, 16, 0, 24)]
    symbols[0][is_copy] = 256 + prefix
    return symbols, is_copy, rest, extra


def write_code(writer, counts):
    """Writes the prefix code for these symbol counts. Returns the codes and their lengths."""
    symbols = np.flatnonzero(counts).tolist()
    if len(symbols) <= 1 and (not symbols or symbols[0] < 256):
        symbol = symbols[0] if symbols else 0
        writer.put(1, 2)  # one symbol
        writer.put(int(symbol > 1), 1)
        writer.put(symbol, 8 if symbol > 1 else 1)
        return np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    if len(symbols) == 1:
        symbols.append(symbols[0] - 1)
    lengths = lengths_of({symbol: int(counts[symbol]) for symbol in symbols}, len(counts), 15)
    # Encodes runs of equal code lengths as symbols of a second code.
    entries, at, last = [], 0, 8
    while at < len(lengths):
        length, end = lengths[at], at
        while end < len(lengths) and lengths[end] == length:
            end += 1
        count, at = end - at, end
        if length and length != last:
            entries.append((length, 0, 0))
            count, last = count - 1, length
        while count >= 3:
            kind, base, bits = (16, 3, 2) if length else (17, 3, 3) if count < 11 else (18, 11, 7)
            part = min(count, base + (1 << bits) - 1)
            entries.append((kind, part - base, bits))
            count -= part
        entries += [(length, 0, 0)] * count
    frequencies = {}
    for kind, _, _ in entries:
        frequencies[kind] = frequencies.get(kind, 0) + 1
    if len(frequencies) == 1:
        frequencies[0 if 0 not in frequencies else 1] = 1
    inner = lengths_of(frequencies, 19, 7)
    writer.put(0, 1)
    writer.put(15, 4)
    for place in LENGTH_ORDER:
        writer.put(inner[place], 3)
    writer.put(0, 1)
    codes = codes_of(inner)
    for kind, value, bits in entries:
        writer.put(codes[kind], inner[kind])
        writer.put(value, bits)
    return np.array(codes_of(lengths), np.int64), np.array(lengths, np.int64)


def lengths_of(counts, size, longest):
    """Returns the lengths of a prefix code. Increases the counts of rare symbols until no code is too long."""
    least = 1
    while True:
        heap = [(max(count, least), symbol, (symbol,)) for symbol, count in counts.items()]
        heapq.heapify(heap)
        lengths = [0] * size
        while len(heap) > 1:
            one, other = heapq.heappop(heap), heapq.heappop(heap)
            both = one[2] + other[2]
            for symbol in both:
                lengths[symbol] += 1
            heapq.heappush(heap, (one[0] + other[0], one[1], both))
        if max(lengths) <= longest:
            return lengths
        least *= 2


def codes_of(lengths):
    """Returns the codes of symbols. The first bit of a code is its least significant bit."""
    codes, code = [0] * len(lengths), 0
    for length in range(1, max(lengths) + 1):
        for symbol, each in enumerate(lengths):
            if each == length:
                codes[symbol] = int(f"{code:0{length}b}"[::-1], 2)
                code += 1
        code <<= 1
    return codes


class Writer:
    """Writes a bit stream, least significant bit first."""

    def __init__(self):
        self.values, self.sizes, self.parts, self.carry, self.carried = [], [], [], 0, 0

    def put(self, value, size):
        self.values.append(value)
        self.sizes.append(size)

    def put_all(self, values, sizes):
        self.pack(np.array(self.values, np.int64), np.array(self.sizes, np.int64))
        self.values, self.sizes = [], []
        for first in range(0, len(values), 1 << 18):
            self.pack(values[first : first + (1 << 18)], sizes[first : first + (1 << 18)])

    def pack(self, values, sizes):
        values, sizes = np.concatenate(([self.carry], values)), np.concatenate(([self.carried], sizes))
        ends = np.cumsum(sizes)
        starts = ends - sizes
        total = int(ends[-1])
        shifted, word = values << (starts & 15), starts >> 4
        words = np.zeros((total >> 4) + 3)
        # No two values share a bit, so their sums are exact.
        for index, shift in enumerate((0, 16, 32)):
            words += np.bincount(word + index, shifted >> shift & 65535, len(words))
        data = words.astype("<u2").tobytes()
        self.carried = total & 7
        self.carry = data[total >> 3] & (1 << self.carried) - 1
        self.parts.append(data[: total >> 3])

    def end(self):
        self.put(0, 7)
        self.put_all(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return b"".join(self.parts)
