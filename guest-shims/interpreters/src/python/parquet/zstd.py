"""Decodes Zstandard (RFC 8878), because this build of CPython has no `_zstd`. Runs inside the guest, with numpy.

Does not support dictionaries, and does not verify checksums. The numbers of sections refer to the RFC. `codecs` is a
module of this package.
"""

import numpy as np

MAGIC = b"\x28\xb5\x2f\xfd"
MAX_BLOCK_BYTES = 1 << 17

# Distributions and accuracies that need no description (3.1.1.3.2.2.), and the codes of lengths: baseline, extra bits.
_LITERALS = [4, 3, *[2] * 11, 1, 1, 1, *[2] * 9, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1]
_MATCHES = [1, 4, 3, 2, 2, 2, 2, 2, 2, *[1] * 37, *[-1] * 7]
_OFFSETS = [*[1] * 6, 2, 2, 2, *[1] * 15, *[-1] * 5]


def _codes(first, direct, extra):
    found = [(first + number, 0) for number in range(direct)]
    value = first + direct
    for bits in extra:
        found.append((value, bits))
        value += 1 << bits
    return np.array(found, np.int64).T


LITERAL_CODES = _codes(0, 16, [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, *range(7, 17)])
MATCH_CODES = _codes(3, 32, [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, *range(7, 17)])
OFFSET_CODES = np.array([(1 << code, code) for code in range(32)], np.int64).T


def broken():
    return ValueError("invalid Parquet file: compressed data is damaged")


def decompress(data, limit):
    """Decodes all frames. Returns at most about `limit` bytes."""
    out, at = bytearray(), 0
    try:
        while at < len(data) and len(out) < limit:
            if data[at : at + 4] == MAGIC:
                at = Frame(data, at + 4, out).read(limit)
            elif data[at + 1 : at + 4] == b"\x2a\x4d\x18" and data[at] >> 4 == 5:  # to be skipped
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            else:
                raise broken()
    except IndexError:
        raise broken() from None
    return bytes(out)


class Bits:
    """A stream that is read backwards, from its highest bit (4.1.)."""

    def __init__(self, data):
        if not data or not data[-1]:
            raise broken()
        self.data, self.at = data, len(data) - 1
        self.count = data[-1].bit_length() - 1
        self.window = data[-1] ^ (1 << self.count)

    def fill(self):
        if self.at >= 6:
            self.at -= 6
            self.window = self.window << 48 | int.from_bytes(self.data[self.at : self.at + 6], "little")
            self.count += 48
        else:
            self.window = self.window << 8 * self.at | int.from_bytes(self.data[: self.at], "little")
            self.count += 8 * self.at
            self.at = 0

    def read(self, width):
        if self.count < width:
            self.fill()
            if self.count < width:
                raise broken()
        self.count -= width
        found = self.window >> self.count
        self.window &= (1 << self.count) - 1
        return found


class Frame:
    """A frame (3.1.1.), whose blocks share tables and the latest offsets."""

    def __init__(self, data, at, out):
        flags = data[at]
        single, size = flags >> 5 & 1, flags >> 6
        at += 1 if single else 2
        if flags & 3 and any(data[at : at + (0, 1, 2, 4)[flags & 3]]):
            raise ValueError("cannot read Parquet files whose compression uses a dictionary")
        at += (0, 1, 2, 4)[flags & 3] + ((single, 2, 4, 8)[size])
        self.data, self.at, self.out, self.start, self.has_checksum = data, at, out, len(out), flags >> 2 & 1
        self.huffman, self.tables, self.latest = None, [None] * 3, [1, 4, 8]

    def read(self, limit):
        data, last = self.data, False
        while not last:
            if len(self.out) > limit:
                raise broken()
            header = int.from_bytes(data[self.at : self.at + 3], "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            at = self.at + 3
            end = at + (1 if kind == 1 else size)
            if end > len(data) or size > MAX_BLOCK_BYTES or kind == 3:
                raise broken()
            if kind == 2:
                self.compressed(data[at:end])
            else:
                self.out += data[at:end] * (size if kind == 1 else 1)
            self.at = end
        return self.at + 4 * self.has_checksum

    def compressed(self, block):
        literals, at = self.literals(block)
        count = block[at]
        at += 1
        if count == 255:
            count, at = int.from_bytes(block[at : at + 2], "little") + 0x7F00, at + 2
        elif count >= 128:
            count, at = (count - 128 << 8) + block[at], at + 1
        if count == 0:
            self.out += literals
            return
        modes = block[at]
        at += 1
        for number, (codes, default, highest, most) in enumerate(KINDS):
            mode = modes >> 6 - 2 * number & 3
            if mode == 0:
                self.tables[number] = default
            elif mode == 1:
                if block[at] > highest:
                    raise broken()
                self.tables[number] = Table(codes, [block[at]], [0], [0], 0)
                at += 1
            elif mode == 2:
                found, at = read_fse(block, at, most, highest)
                self.tables[number] = Table(codes, *found)
            elif self.tables[number] is None:
                raise broken()
        self.execute(literals, block[at:], count)

    def literals(self, block):
        """Decodes the literals section (3.1.1.3.1.)."""
        kind, form = block[0] & 3, block[0] >> 2 & 3
        if kind < 2:
            width = (1, 2, 1, 3)[form]
            size = int.from_bytes(block[:width], "little") >> (3 if width == 1 else 4)
            end = width + (size if kind == 0 else 1)
            if end > len(block) or size > MAX_BLOCK_BYTES:
                raise broken()
            return block[width:end] * (1 if kind == 0 else size), end
        width, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
        sizes = int.from_bytes(block[:width], "little") >> 4
        size, packed = sizes & (1 << bits) - 1, sizes >> bits
        at, end = width, width + packed
        if end > len(block) or size > MAX_BLOCK_BYTES:
            raise broken()
        if kind == 2:
            self.huffman, at = read_huffman(block, at)
        if self.huffman is None:
            raise broken()
        if form == 0:
            return unpack(self.huffman, block[at:end], size), end
        parts, bound = [], at + 6
        quarter = (size + 3) // 4
        for number in range(4):
            begin, bound = bound, end
            if number < 3:
                bound = begin + int.from_bytes(block[at + 2 * number : at + 2 * number + 2], "little")
            if bound > end or size < 3 * quarter:
                raise broken()
            parts.append(unpack(self.huffman, block[begin:bound], quarter if number < 3 else size - 3 * quarter))
        return b"".join(parts), end

    def execute(self, literals, data, count):
        """Decodes and executes the sequences (3.1.1.4., 3.1.1.5.)."""
        if 3 * count > MAX_BLOCK_BYTES:  # a match has at least three bytes
            raise broken()
        offsets, matches, runs = self.sequences(data, count)
        ends = np.cumsum(runs + matches)
        used = int(runs.sum())
        if used > len(literals) or ends[-1] + len(literals) - used > MAX_BLOCK_BYTES:
            raise broken()
        block = np.zeros(ends[-1], np.uint8)
        block[codecs.indices(ends - matches - runs, runs)] = np.frombuffer(literals, np.uint8, used)
        out, start, (first, second, third) = self.out, self.start, self.latest
        ends += len(out)
        out += block.tobytes()
        columns = offsets, runs, ends - matches, ends
        for offset, run, begin, end in zip(*(column.tolist() for column in columns)):
            if offset > 3:
                first, second, third = offset - 3, first, second
            else:  # one of the latest offsets
                index = offset - 1 if run else offset
                if index == 1:
                    first, second = second, first
                elif index == 2:
                    first, second, third = third, first, second
                elif index == 3:
                    first, second, third = first - 1, first, second
            source = begin - first
            if source < start or first < 1:
                raise broken()
            stop = source + end - begin
            if stop <= begin:
                out[begin:end] = out[source:stop]
            else:
                out[begin:end] = codecs.overlapping(out, begin, end - begin, first)
        self.latest = [first, second, third]
        out += literals[used:]

    def sequences(self, data, count):
        """Decodes offsets, lengths of matches, and lengths of the literals before them."""
        if not data or not data[-1]:
            raise broken()
        top = 8 * len(data) - 9 + data[-1].bit_length()  # the bits before it are left
        words = np.ndarray(len(data), "<u8", data + bytes(7), strides=(1,))  # the 64 bits from each byte on
        ll_table, of_table, ml_table = self.tables
        ll_bits, of_bits, ml_bits = ll_table.accuracy, of_table.accuracy, ml_table.accuracy
        top -= ll_bits + of_bits + ml_bits
        if top < 0:
            raise broken()
        parts = (words & np.uint64((1 << ll_bits + of_bits + ml_bits + 7) - 1)).tolist()
        value, place = parts[top >> 3] >> (top & 7), top
        ml = value & (1 << ml_bits) - 1
        of = value >> ml_bits & (1 << of_bits) - 1
        ll = value >> ml_bits + of_bits & (1 << ll_bits) - 1
        ll_rows, of_rows, ml_rows = ll_table.rows, of_table.rows, ml_table.rows
        # The loop only follows the states. If it reads before the first bit, the total below exceeds `top`.
        states = []
        for _ in range(count - 1):
            states.append(ll << 18 | of << 9 | ml)
            ll_base, ll_mask, _, ll_total = ll_rows[ll]
            of_base, of_mask, of_width, of_total = of_rows[of]
            ml_base, ml_mask, ml_width, ml_total = ml_rows[ml]
            place -= ll_total + of_total + ml_total
            value = parts[place >> 3] >> (place & 7)
            of = of_base + (value & of_mask)
            value >>= of_width
            ml = ml_base + (value & ml_mask)
            ll = ll_base + (value >> ml_width & ll_mask)
        states.append(ll << 18 | of << 9 | ml)
        states = np.array(states)
        total, fields = 0, []
        for table, shift in (ll_table, 18), (of_table, 9), (ml_table, 0):
            state = states >> shift & 511
            extra, width = table.extra[state], table.widths[state]
            width[-1] = 0  # no state follows the last one
            total = total + extra + width
            fields.append((table.values[state], extra))
        ends = np.cumsum(total)
        if ends[-1] != top:
            raise broken()
        found, places = [], top - ends + total
        for least, extra in fields[1], fields[2], fields[0]:
            places = places - extra
            value = words[places >> 3] >> (places & 7).astype(np.uint64)
            found.append(least + (value.astype(np.int64) & (1 << extra) - 1))
        return found


class Table:
    """A decoding table for sequences. By state: the least value, its extra bits, and the bits of the next state.

    `rows` contains what a loop needs by state: base, mask and width of the next state, and all bits that are read.
    """

    def __init__(self, codes, symbols, widths, bases, accuracy):
        self.values, self.extra = codes[:, symbols]
        self.widths, self.accuracy = np.array(widths), accuracy
        totals = (self.extra + self.widths).tolist()
        self.rows = [(base, (1 << width) - 1, width, total) for base, width, total in zip(bases, widths, totals)]


def fse_table(distribution, accuracy):
    """Builds a decoding table (4.1.1.): symbols, bits to read and bases by state, and the accuracy."""
    size = 1 << accuracy
    symbols, high, place, step = [0] * size, size - 1, 0, (size >> 1) + (size >> 3) + 3
    for symbol, share in enumerate(distribution):
        if share == -1:
            symbols[high] = symbol
            high -= 1
    for symbol, share in enumerate(distribution):
        for _ in range(share):
            symbols[place] = symbol
            place = (place + step) & (size - 1)
            while place > high:
                place = (place + step) & (size - 1)
    following = [max(1, share) if share else 0 for share in distribution]
    widths, bases = [], []
    for symbol in symbols:
        state = following[symbol]
        following[symbol] += 1
        widths.append(accuracy - state.bit_length() + 1)
        bases.append((state << widths[-1]) - size)
    return symbols, widths, bases, accuracy


def read_fse(block, at, most, highest):
    """Reads the description of a table. Returns the table and the position after it."""
    stream = int.from_bytes(block[at : at + 512], "little")
    accuracy, used, shares = (stream & 15) + 5, 4, []
    left = 1 << accuracy
    if accuracy > most:
        raise broken()
    while left > 0 and len(shares) <= highest:
        bits = (left + 1).bit_length()
        value, lower = stream >> used & (1 << bits) - 1, (1 << bits - 1) - 1
        threshold = (1 << bits) - 2 - left
        used += bits
        if value & lower < threshold:
            value &= lower
            used -= 1
        elif value > lower:
            value -= threshold
        shares.append(value - 1)
        left -= abs(value - 1)
        repeat = 3 if value == 1 else 0
        while repeat == 3:
            repeat = stream >> used & 3
            used += 2
            shares += [0] * repeat
            if len(shares) > highest + 1:
                raise broken()
    at += (used + 7) // 8
    if left != 0 or len(shares) > highest + 1 or at > len(block):
        raise broken()
    return fse_table(shares, accuracy), at


def read_huffman(block, at):
    """Reads the description of a Huffman tree (4.2.1.). Returns symbols, lengths and the longest length."""
    size = block[at]
    at += 1
    if size >= 128:
        count = size - 127
        end = at + (count + 1) // 2
        weights = [part for byte in block[at:end] for part in (byte >> 4, byte & 15)][:count]
    else:
        end = at + size
        (symbols, widths, bases, accuracy), at = read_fse(block[:end], at, 6, 15)
        bits, weights = Bits(block[at:end]), []
        states = [bits.read(accuracy), bits.read(accuracy)]
        turn = 0
        while True:  # two states take turns until the bits are used up
            state = states[turn]
            weights.append(symbols[state])
            if bits.count + 8 * bits.at < widths[state]:
                weights.append(symbols[states[1 - turn]])
                break
            states[turn] = bases[state] + bits.read(widths[state])
            turn = 1 - turn
            if len(weights) > 254:
                raise broken()
    if end > len(block):
        raise broken()
    total = sum(1 << weight - 1 for weight in weights if weight)
    longest = total.bit_length()
    rest = (1 << longest) - total
    if not total or longest > 11 or rest & rest - 1 or len(weights) > 255 or max(weights) > longest:
        raise broken()
    weights.append(rest.bit_length())
    weights = np.array(weights)
    order = np.argsort(weights, kind="stable")[np.count_nonzero(weights == 0) :]
    spans, lengths = 1 << weights[order] - 1, longest + 1 - weights[order]
    return (np.repeat(order, spans).astype(np.uint8), np.repeat(lengths, spans).astype(np.uint8), longest), end


def unpack(huffman, data, size):
    """Decodes a stream of literals. Finds the code that starts at every bit, and follows them from the last bit on."""
    symbols, lengths, longest = huffman
    if not data or not data[-1] or 8 * (len(data) - 1) > longest * size:
        raise broken()
    # Two bytes of zeros before the data complete the code at its first bits.
    raw = np.frombuffer(bytes(2) + data + bytes(2), np.uint8).astype(np.uint32)
    words = raw[:-2] | raw[1:-1] << 8 | raw[2:] << 16
    codes = (words[:, None] >> np.arange(8, dtype=np.uint32) & (1 << longest) - 1).astype(np.uint16).reshape(-1)
    following = np.arange(len(codes)) - lengths[codes]
    last = 16 - longest
    following[: last + 1] = np.arange(last + 1)
    places, end = codecs.walk(np.maximum(following, 0), 8 * len(data) + 7 + data[-1].bit_length() - longest)
    if len(places) != size or end != last:
        raise broken()
    return symbols[codes[places]].tobytes()


# For lengths of literals, offsets, and lengths of matches: codes, default table, highest code, highest accuracy.
KINDS = (
    (LITERAL_CODES, Table(LITERAL_CODES, *fse_table(_LITERALS, 6)), 35, 9),
    (OFFSET_CODES, Table(OFFSET_CODES, *fse_table(_OFFSETS, 5)), 31, 8),
    (MATCH_CODES, Table(MATCH_CODES, *fse_table(_MATCHES, 6)), 52, 9),
)
