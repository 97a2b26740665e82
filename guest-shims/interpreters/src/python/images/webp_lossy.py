"""Decodes lossy WebP images (VP8 key frames, RFC 6386). Runs inside the guest, with numpy.

The bits are read sequentially. Prediction and loop filter process a *wave* at once: the macroblocks with the same sum
of column and twice the row. They are independent, because each needs only its left neighbor and three neighbors above.
"""

import array

import numpy as np

BORDER = 4  # samples to the left of a plane and above it
STRIP_ROWS = 32  # rows of pixels that are converted to RGB in one step
ZIGZAG = 0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15
BANDS = 0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7
# Trees: an inner node is the index of its two branches, and a leaf is the bitwise complement of its value.
TOKENS = ~11, 2, ~0, 4, ~1, 6, 8, 12, ~2, 10, ~3, ~4, 14, 16, ~5, ~6, 18, 20, ~7, ~8, ~9, ~10
SUBMODES = ~0, 2, ~1, 4, ~2, 6, 8, 12, ~3, 10, ~5, ~6, ~4, 14, ~7, 16, ~8, ~9
SEGMENTS = 2, 4, ~0, ~1, ~2, ~3
# The first value of each category of large coefficients, and the probabilities of its extra bits.
LARGE = (
    (5, (159,)), (7, (165, 145)), (11, (173, 148, 140)), (19, (176, 155, 140, 135)), (35, (180, 157, 141, 134, 130)),
    (67, (254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129)),
)  # fmt: skip
MEAN, VERTICAL, HORIZONTAL, TRUE_MOTION, BY_SUBBLOCK = range(5)
SUBMODE_OF = 0, 2, 3, 1  # the subblock mode that stands for a macroblock's mode, as context for neighbors
# Tables of RFC 6386: quantization (sections 14.1 and 9.6), and probabilities of subblock modes (11.5), of updates to
# token probabilities (13.4), and of tokens (13.5).
MEAN_STEPS = bytes.fromhex(
    "0405060708090a0a0b0c0d0e0f101111121314141515161617171819191a1b1c1d1e1f20212223242525262728292a2b2c2d2e2e2f303132"
    "333435363738393a3b3c3d3e3f404142434445464748494a4b4c4c4d4e4f505152535455565758595b5d5f6062646566686a6c6e70727476"
    "7a7c7e80828486888a8c8f9194979a9d"
)
STEPS = np.frombuffer(bytes.fromhex(
    "000400050006000700080009000a000b000c000d000e000f0010001100120013001400150016001700180019001a001b001c001d001e001f"
    "0020002100220023002400250026002700280029002a002b002c002d002e002f0030003100320033003400350036003700380039003a003c"
    "003e00400042004400460048004a004c004e00500052005400560058005a005c005e00600062006400660068006a006c006e007000720074"
    "0077007a007d0080008300860089008c008f009200950098009b009e00a100a400a700aa00ad00b100b500b900bd00c100c500c900cd00d1"
    "00d500d900dd00e100e500ea00ef00f500f900fe01030108010d01120117011c"
), ">u2").tolist()  # fmt: skip
SUBMODE_CHANCES = bytes.fromhex(
    "e7783059737178987098b3407eaa762e465faf458f505552489b67383a0aabdabd110d9890470a26abd590221a721a11a32cc3150aad7918"
    "50c31a3e2c4055aa2e371388a021ce473f14087272d00c09e251280b60b6541d102486b7598962656aa59448bb64829d6f204b504266a763"
    "4a3e28ea80293509b2f18d1a086b684f0c1bd9ff5711074a2b1a9249a631179d412669a033341f73805744472c72330fba172f290e6eb6b7"
    "1511c2422d1966c5bd171216585893962a2e2dc4cd2b61b775552623b33d2735c8571a152be8ab3822336872661d5d4d6b36201a3301512b"
    "1f271c55ab3aa55a6240221674ce17222ba64944196a1640ab24e1722213156684bc104c7c3e124e5f5539323033c165239fd76f592e6f3c"
    "941facdbe415126f70714d55b3ff267872282a01c4f5d10a196d6450082b9a01331a47582b1d8ca6d5252b9a3d3f1e9b432d4401d18e4e4e"
    "10ff8022c5ab29280566d3b70401dd333211a8d1c01719527d622a58685575af525f543559806471652d4b4f7b2f338051ab013911054766"
    "393529317315020a66ffa6170626210d7939491a0155290a438a4d6e5a2f72651d100a558065c41a39120a6666d522142b75140f24a38044"
    "011a8a1f24ab1ba6262ce543573aa952731a3bb33f3b5ab43ba65d499a282815748fd12227af392e161880013611252f0f10b722df312db7"
    "2e1121b706620f20b7412049731c801780cd2803097333c01206df572509733b4d40152f68372cda09363582e2405a46cd2829171a393639"
    "70b8052926a6d51e221a8598740a20864b200c33c0ffa02b33271335dd1a722049ff1f0941ea020f017649581f2343665537ba553815176f"
    "3bcd2d25c03726467c4966012262663d472522351ff3c0453c472649771cde25442d8022012f0bf5ab3e1113469255373e464b0f090940ff"
    "b87710252b259a64a355a0013f095c881c4020c95556061c0540ff19f8013808118489ff3774803a0f145287391a7928a4321f899a851923"
    "da33672c83837b1f069e5628408794e02db780161a1183f09a0e01d1530c0d36c0ff442f1c2d10155b40de0701c53815279b3c8a1766d555"
    "1a555580802092ab120b073f90ab0404f6231b0a92aeab0c1a80be502363b4507e362d557e2f57b033291420654b808b769274805538290f"
    "b0ec5525093e9224131eabff611b14471e117776ff11128a65263c8a37462b1a8e8a2d3d3edb0151bc4020291475978e1415a370130c3dc3"
    "80300418"
)
CHANGE_CHANCES = bytes.fromhex(
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffb0f6ffffffffffffffffffdff1fcfffffffffffffffff9"
    "fdfdfffffffffffffffffff4fcffffffffffffffffeafefefffffffffffffffffdfffffffffffffffffffffff6feffffffffffffffffeffd"
    "fefffffffffffffffffefffefffffffffffffffffff8fefffffffffffffffffbfffefffffffffffffffffffffffffffffffffffffffffdfe"
    "fffffffffffffffffbfefefffffffffffffffffefffefffffffffffffffffffefdfffefffffffffffffafffefffefffffffffffffeffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffd9ffffffffffffffffffffe1fcf1fdff"
    "fffeffffffffeafaf1fafdfffdfefffffffffeffffffffffffffffffdffefeffffffffffffffffeefdfefefffffffffffffffff8feffffff"
    "fffffffffff9fefffffffffffffffffffffffffffffffffffffffffffdfffffffffffffffffff7feffffffffffffffffffffffffffffffff"
    "fffffffffffdfefffffffffffffffffcfffffffffffffffffffffffffffffffffffffffffffffefefffffffffffffffffdffffffffffffff"
    "fffffffffffffffffffffffffffffffefdfffffffffffffffffafffffffffffffffffffffeffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffbafbfaffffffffffffffffeafbf4fefffffffffffffffbfbf3fdfefffeffffff"
    "fffffdfeffffffffffffffffecfdfefffffffffffffffffbfdfdfefefffffffffffffffefefffffffffffffffffefefeffffffffffffffff"
    "fffffffffffffffffffffffffefffffffffffffffffffefefffffffffffffffffffefffffffffffffffffffffffffffffffffffffffffffe"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "fffffffffffffffff8fffffffffffffffffffffafefcfefffffffffffffff8fef9fdfffffffffffffffffdfdfffffffffffffffff6fdfdff"
    "fffffffffffffffcfefbfefefffffffffffffffefcfffffffffffffffff8fefdfffffffffffffffffdfffefefffffffffffffffffbfeffff"
    "fffffffffffff5fbfefffffffffffffffffdfdfefffffffffffffffffffbfdfffffffffffffffffcfdfefffffffffffffffffffeffffffff"
    "fffffffffffffcfffffffffffffffffff9fffefffffffffffffffffffffefffffffffffffffffffffdfffffffffffffffffaffffffffffff"
    "fffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffff"
)
TOKEN_CHANCES = bytes.fromhex(
    "808080808080808080808080808080808080808080808080808080808080808080fd88feffe4db8080808080bd81f2ffe3d5ffdb8080806a"
    "7ee3fcd6d1ffff8080800162f8ffece2ffff808080b585eefeddeaff9a8080804e86caf7c6b4ffdb80808001b9f9fff3ff8080808080b896"
    "f7ffece080808080804d6ed8ffece680808080800165fbfff1ff8080808080aa8bf1fcecd1ffff8080802574c4f3e4ffffff80808001ccfe"
    "fff5ff8080808080cfa0faffee8080808080806667e7ffd3ab80808080800198fcfff0ff8080808080b187f3ffeae180808080805081d3ff"
    "c2e080808080800101ff8080808080808080f601ff8080808080808080ff80808080808080808080c623eddfc1bba2a0919b3e832dc6ddac"
    "b0dc9dfcdd01442f92d095a7dda2ffdf800195f1ffdde0ffff808080b88deafddedcffc78080805163b5f2b0bef9caffff800181e8fdd6c5"
    "f2c4ffff806379d2fac9c6ffca808080175ba3f2aabbf7d2ffff8001c8f6ffeaff80808080806db2f1ffe7f5ffff8080802c82c9fdcdc0ff"
    "ff8080800184effbdbd1ffa58080805e88e1fbdabeffff8080801664aef5baa1ffc780808001b6f9ffe8eb80808080807c8ff1ffe3ea8080"
    "808080234db5fbc1d3ffcd808080019df7ffece7ffff808080798debffe1e3ffff8080802d63bcfbc3d9ffe08080800101fbffd5ff808080"
    "8080cb01f8ffff8080808080808901b1ffe0ff8080808080fd09f8fbcfd0ffc0808080af0de0f3c1b9f9c6ffff804911abdda1b3eca7ffea"
    "80015ff7fdd4b7ffff808080ef5af4fad3d1ffff8080809b4dc3f8bcc3ffff8080800118effbdadbffcd808080c933dbffc4ba8080808080"
    "452ebeefc9daffe480808001bffbffff808080808080dfa5f9ffd5ff80808080808d7cf8ffff8080808080800110f8ffff808080808080be"
    "24e6ffecff80808080809501ff808080808080808001e2ff8080808080808080f7c0ff8080808080808080f080ff80808080808080800186"
    "fcffff808080808080d53efaffff808080808080375dff808080808080808080808080808080808080808080808080808080808080808080"
    "8080808080808080ca18d5ebbabfdca0f0afff7e26b6e8a9b8e4aeffbb803d2e8adb97b2f0aaffd8800170e6fac7bff79fffff80a66de4fc"
    "d3d7ffae808080274da2e8acb4f5b2ffff800134dcf6c6c7f9dcffff807c4abff3b7c1faddffff80184782db9aaaf3b6ffff8001b6e1f9db"
    "f0ffe08080809596e2fcd8cdffab8080801c6caaf2b7c2fedfffff800151e6fccccbffc08080807b66d1f7bcc4ffe9808080145f99f3a4ad"
    "ffcb80808001def8ffd8d58080808080a8aff6fcebcdffff8080802f74d7ffd3d4ffff8080800179ecfdd4d6ffff8080808d54d5fcc9caff"
    "db8080802a50a0f0a2b9ffcd8080800101ff8080808080808080f401ff8080808080808080ee01ff8080808080808080"
)


class Broken(Exception):
    """The image is invalid."""


def header(data):
    """Returns the width and the height."""
    if len(data) < 10 or data[0] & 1 or bytes(data[3:6]) != b"\x9d\x01\x2a":
        raise Broken
    width, height = int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF
    if not width or not height:
        raise Broken
    return width, height


def clamp(values, low, high):
    return np.minimum(np.maximum(values, low), high)  # faster than `np.clip` for small arrays


# The split of a boolean decoder, by probability and range.
SPLITS = [bytes([0] + [1 + (span * chance >> 8) for span in range(255)]) for chance in range(256)]


def rows_of(chances):
    return [SPLITS[chance] for chance in chances]


class Bits:
    """A boolean decoder. `value` holds the 8 bits to compare, followed by `extra` bits."""

    def __init__(self, data):
        self.data, self.at = bytes(data) + bytes(2), 2
        self.value, self.extra, self.range = int.from_bytes(self.data[:2]), 8, 255
        self.limit = len(data) + 8

    def bit(self, chance=128):
        split = 1 + ((self.range - 1) * chance >> 8)
        threshold = split << self.extra
        if self.value >= threshold:
            self.value -= threshold
            self.range -= split
            found = 1
        else:
            self.range, found = split, 0
        shift = 8 - self.range.bit_length()
        if shift:
            self.range <<= shift
            self.extra -= shift
            if self.extra < 0:
                self.value = self.value << 16 | int.from_bytes(self.data[self.at : self.at + 2].ljust(2, b"\0"))
                self.extra += 16
                self.at += 2
                if self.at > self.limit:
                    raise Broken
        return found

    def number(self, count):
        found = 0
        for _ in range(count):
            found = found << 1 | self.bit()
        return found

    def signed(self, count):
        """Reads an optional signed number. Returns 0 if it is absent."""
        if not self.bit():
            return 0
        found = self.number(count)
        return -found if self.bit() else found

    def leaf(self, tree, splits):
        """Reads a leaf of a tree. `splits` has a row of `SPLITS` for each branch. Inlines `bit` for speed."""
        value, extra, span, node = self.value, self.extra, self.range, 0
        while node >= 0:
            split = splits[node >> 1][span]
            threshold = split << extra
            if value >= threshold:
                value -= threshold
                span -= split
                node = tree[node + 1]
            else:
                span = split
                node = tree[node]
            shift = SHIFTS[span]
            span <<= shift
            extra -= shift
            if extra < 0:
                value = value << 16 | int.from_bytes(self.data[self.at : self.at + 2].ljust(2, b"\0"))
                extra += 16
                self.at += 2
        if self.at > self.limit:
            raise Broken
        self.value, self.extra, self.range = value, extra, span
        return ~node


class KeyFrame:
    """Decodes a key frame. A *mean* is a DC coefficient."""

    def __init__(self, data):
        self.width, self.height = header(data)
        self.wide, self.high = -(-self.width // 16), -(-self.height // 16)
        size = int.from_bytes(data[:3], "little") >> 5
        if 10 + size > len(data):
            raise Broken
        bits = self.bits = Bits(data[10 : 10 + size])
        bits.number(2)  # the color space, and whether samples need no clamping
        self.read_segments()
        self.is_simple, self.level, self.sharpness = bits.bit(), bits.number(6), bits.number(3)
        self.level_changes = [0] * 8
        self.has_changes = bits.bit()
        if self.has_changes and bits.bit():
            self.level_changes = [bits.signed(6) for _ in range(8)]
        self.read_parts(data[10 + size :], 1 << bits.number(2))
        self.read_quantization()
        bits.bit()  # whether later frames use these probabilities
        chances = bytearray(TOKEN_CHANCES)
        for index, chance in enumerate(CHANGE_CHANCES):
            if bits.bit(chance):
                chances[index] = bits.number(8)
        # Indexed by kind of block, band of positions, and context.
        bands = [
            [
                [rows_of(chances[at : at + 11]) for at in range(start, start + 33, 11)]
                for start in range(kind, kind + 264, 33)
            ]
            for kind in range(0, 1056, 264)
        ]
        self.chances = [[kind[band] for band in BANDS] + [None] for kind in bands]
        self.skip_chance = bits.number(8) if bits.bit() else None

    def read_segments(self):
        bits = self.bits
        self.has_segments, self.map_chances, self.is_absolute = bits.bit(), None, 0
        self.segment_steps, self.segment_levels = [0] * 4, [0] * 4
        if self.has_segments:
            has_map, has_values = bits.bit(), bits.bit()
            if has_values:
                self.is_absolute = bits.bit()
                self.segment_steps = [bits.signed(7) for _ in range(4)]
                self.segment_levels = [bits.signed(6) for _ in range(4)]
            if has_map:
                self.map_chances = rows_of([bits.number(8) if bits.bit() else 255 for _ in range(3)])

    def read_parts(self, data, count):
        """Finds the token partitions, which the rows of macroblocks use in turn."""
        at, self.parts = 3 * (count - 1), []
        if at > len(data):
            raise Broken
        for index in range(count):
            size = int.from_bytes(data[3 * index : 3 * index + 3], "little") if index < count - 1 else len(data)
            self.parts.append(Bits(data[at : at + size]))
            at += size

    def read_quantization(self):
        """Computes the quantization steps of each segment: for luma, luma means and chroma, two steps each."""
        base = self.bits.number(7)
        luma, mean, other_mean, chroma, other_chroma = (self.bits.signed(4) for _ in range(5))
        self.steps = np.zeros((4, 3, 2), np.int64)
        for index in range(4):
            step = base
            if self.has_segments:
                step = self.segment_steps[index] + (0 if self.is_absolute else base)
            at = [min(max(step + change, 0), 127) for change in (luma, 0, mean, other_mean, chroma, other_chroma)]
            self.steps[index] = (
                (MEAN_STEPS[at[0]], STEPS[at[1]]),
                (MEAN_STEPS[at[2]] * 2, max(STEPS[at[3]] * 155 // 100, 8)),
                (min(MEAN_STEPS[at[4]], 132), STEPS[at[5]]),
            )

    def read_modes(self):
        """Reads the prediction modes of all macroblocks."""
        count = self.wide * self.high
        self.segments, self.skips = bytearray(count), bytearray(count)
        self.modes, self.chroma_modes, self.submodes = bytearray(count), bytearray(count), bytearray(16 * count)
        bits, above = self.bits, [0] * (4 * self.wide)
        chances = [
            [rows_of(SUBMODE_CHANCES[at : at + 9]) for at in range(start, start + 90, 9)] for start in range(0, 900, 90)
        ]
        for index in range(count):
            column = index % self.wide
            if not column:
                left = [0] * 4
            if self.map_chances:
                self.segments[index] = bits.leaf(SEGMENTS, self.map_chances)
            if self.skip_chance is not None:
                self.skips[index] = bits.bit(self.skip_chance)
            if not bits.bit(145):
                mode = BY_SUBBLOCK
            elif bits.bit(156):
                mode = TRUE_MOTION if bits.bit(128) else HORIZONTAL
            else:
                mode = VERTICAL if bits.bit(163) else MEAN
            self.modes[index] = mode
            if mode == BY_SUBBLOCK:
                for row in range(4):
                    before = left[row]
                    for at in range(4 * column, 4 * column + 4):
                        before = above[at] = bits.leaf(SUBMODES, chances[above[at]][before])
                        self.submodes[16 * index + 4 * row + (at & 3)] = before
                    left[row] = before
            else:
                above[4 * column : 4 * column + 4] = left[:] = [SUBMODE_OF[mode]] * 4
            if not bits.bit(142):
                self.chroma_modes[index] = MEAN
            elif not bits.bit(114):
                self.chroma_modes[index] = VERTICAL
            else:
                self.chroma_modes[index] = TRUE_MOTION if bits.bit(183) else HORIZONTAL

    def read_tokens(self, row, above):
        """Reads the coefficients of a row of macroblocks. Returns their positions and values. `above` has 9 flags for
        each column, which tell if the blocks above have coefficients: 4 for luma, 2 for each chroma plane, and 1 for
        the means."""
        bits, tokens, zigzag, large = self.parts[row % len(self.parts)], TOKENS, ZIGZAG, LARGE_SPLITS
        data, at, value, extra, span, limit = bits.data, bits.at, bits.value, bits.extra, bits.range, bits.limit
        places, values, left = array.array("i"), array.array("i"), bytearray(9)
        add_place, add_value, shifts = places.append, values.append, SHIFTS
        for column in range(self.wide):
            index, top = row * self.wide + column, above[column]
            by_subblock = self.modes[index] == BY_SUBBLOCK
            if self.skips[index]:
                left[:8] = top[:8] = bytes(8)
                if not by_subblock:
                    left[8] = top[8] = 0
                continue
            for block, kind, first, one, other in BLOCKS_ALONE if by_subblock else BLOCKS:
                chances, position, node = self.chances[kind], first, 0
                chance = chances[position][top[one] + left[other]]
                base = 400 * column + 16 * block
                while position < 16:
                    while True:
                        split = chance[node >> 1][span]
                        threshold = split << extra
                        if value >= threshold:
                            value -= threshold
                            span -= split
                            node = tokens[node + 1]
                        else:
                            span = split
                            node = tokens[node]
                        shift = shifts[span]
                        if shift:
                            span <<= shift
                            extra -= shift
                            if extra < 0:
                                value = value << 16 | (data[at] << 8 | data[at + 1] if at + 1 < len(data) else 0)
                                extra += 16
                                at += 2
                        if node < 0:
                            break
                    token = ~node
                    if not token:
                        position, node = position + 1, 2
                        chance = chances[position][0] if position < 16 else None
                        continue
                    if token == 11:
                        break
                    if token > 4:
                        least, more = large[token - 5]
                        token = 0
                        for each in more:
                            split = each[span]
                            threshold = split << extra
                            token <<= 1
                            if value >= threshold:
                                value -= threshold
                                span -= split
                                token |= 1
                            else:
                                span = split
                            shift = shifts[span]
                            span <<= shift
                            extra -= shift
                            if extra < 0:
                                value = value << 16 | (data[at] << 8 | data[at + 1] if at + 1 < len(data) else 0)
                                extra += 16
                                at += 2
                        token += least
                    # The sign is a bit with even chances.
                    split = span + 1 >> 1
                    threshold = split << extra
                    add_place(base + zigzag[position])
                    position, node = position + 1, 0
                    if position < 16:
                        chance = chances[position][2 if token > 1 else 1]
                    if value >= threshold:
                        value -= threshold
                        span -= split
                        token = -token
                    else:
                        span = split
                    add_value(token)
                    shift = shifts[span]
                    span <<= shift
                    extra -= shift
                    if extra < 0:
                        value = value << 16 | (data[at] << 8 | data[at + 1] if at + 1 < len(data) else 0)
                        extra += 16
                        at += 2
                # A block whose tokens are all zeros counts as having coefficients.
                top[one] = left[other] = int(position > first)
            if at > limit:
                raise Broken
        bits.at, bits.value, bits.extra, bits.range = at, value, extra, span
        return np.frombuffer(places, np.int32), np.frombuffer(values, np.int32)

    def read_differences(self):
        """Reads and transforms all coefficients. The results are the differences from the predictions, for luma and
        both chroma planes, and a mask of the macroblocks with coefficients."""
        self.differences = np.zeros((self.high * 16, self.wide * 16), np.int16)
        self.chroma_differences = np.zeros((2, self.high * 8, self.wide * 8), np.int16)
        self.has_coefficients = np.zeros((self.high, self.wide), bool)
        above = [bytearray(9) for _ in range(self.wide)]
        segments = np.frombuffer(self.segments, np.uint8).reshape(self.high, self.wide)
        by_subblock = np.frombuffer(self.modes, np.uint8).reshape(self.high, self.wide) == BY_SUBBLOCK
        count = max(2048 // self.wide, 1)
        for first in range(0, self.high, count):
            rows = min(count, self.high - first)
            found = np.zeros((rows, self.wide * 400), np.int64)
            for row in range(rows):
                places, values = self.read_tokens(first + row, above)
                found[row, places] = values
            found = found.reshape(-1, 25, 16)
            steps = self.steps[segments[first : first + rows].reshape(-1)]
            self.transform(first, rows, found, steps, by_subblock[first : first + rows].reshape(-1))

    def transform(self, first, rows, found, steps, by_subblock):
        # Block 24 has the means of the luma blocks, unless the macroblock is predicted by subblocks.
        for blocks, kind in (slice(0, 16), 0), (slice(24, 25), 1), (slice(16, 24), 2):
            found[:, blocks, 0] *= steps[:, kind, :1]
            found[:, blocks, 1:] *= steps[:, kind, 1:, None]
        found = found.astype(np.int16).astype(np.int64)  # as in libwebp
        means = found[:, 24].reshape(-1, 4, 4).copy()
        for last in 0, 1:
            i0, i1, i2, i3 = means[:, 0], means[:, 1], means[:, 2], means[:, 3]
            a, b, c, d = i0 + i3, i1 + i2, i1 - i2, i0 - i3
            if last:
                d, a = d + 3, a + 3
            # The second pass works on columns of the transposed result.
            means = np.stack((a + b, c + d, a - b, d - c), 1).transpose(0, 2, 1)
        found[~by_subblock, :16, 0] = (means >> 3).reshape(-1, 16)[~by_subblock]
        self.has_coefficients[first : first + rows] = found[:, :24].any((1, 2)).reshape(rows, -1)
        blocks = found[:, :24].reshape(-1, 4, 4)
        for last in 0, 1:
            i0, i1, i2, i3 = blocks[:, 0], blocks[:, 1], blocks[:, 2], blocks[:, 3]
            if last:
                i0 = i0 + 4
            a, b = i0 + i2, i0 - i2
            c = (i1 * 35468 >> 16) - i3 - (i3 * 20091 >> 16)
            d = i1 + (i1 * 20091 >> 16) + (i3 * 35468 >> 16)
            blocks = np.stack((a + d, b + c, b - c, a - d), 1).transpose(0, 2, 1)
        blocks = (blocks >> 3).astype(np.int16).reshape(rows, self.wide, 24, 4, 4)
        luma = blocks[:, :, :16].reshape(rows, self.wide, 4, 4, 4, 4).transpose(0, 2, 4, 1, 3, 5)
        self.differences[16 * first : 16 * (first + rows)] = luma.reshape(rows * 16, -1)
        chroma = blocks[:, :, 16:].reshape(rows, self.wide, 2, 2, 2, 4, 4).transpose(2, 0, 3, 5, 1, 4, 6)
        self.chroma_differences[:, 8 * first : 8 * (first + rows)] = chroma.reshape(2, rows * 8, -1)

    def waves(self):
        """Yields the rows and columns of the macroblocks of each wave."""
        for wave in range(self.wide + 2 * (self.high - 1)):
            rows = np.arange(max((wave - self.wide) // 2 + 1, 0), min(wave // 2 + 1, self.high))
            if len(rows):
                yield rows, wave - 2 * rows

    def predict(self):
        """Adds the predictions to the differences."""
        high, wide = self.high * 16 + BORDER, self.wide * 16 + BORDER
        self.luma = np.full((high, wide + 4), 127, np.uint8)
        self.chroma = np.full((2, self.high * 8 + BORDER, self.wide * 8 + BORDER), 127, np.uint8)
        self.luma[BORDER:, :BORDER] = self.chroma[:, BORDER:, :BORDER] = 129
        modes = np.frombuffer(self.modes, np.uint8).reshape(self.high, self.wide)
        chroma_modes = np.frombuffer(self.chroma_modes, np.uint8).reshape(self.high, self.wide)
        submodes = np.frombuffer(self.submodes, np.uint8).reshape(self.high, self.wide, 16)
        for rows, columns in self.waves():
            kinds = modes[rows, columns]
            for mode in np.unique(kinds).tolist():
                those = kinds == mode
                if mode == BY_SUBBLOCK:
                    self.predict_subblocks(rows[those], columns[those], submodes)
                else:
                    self.predict_whole(self.luma, self.differences, 16, mode, rows[those], columns[those])
            kinds = chroma_modes[rows, columns]
            for mode in np.unique(kinds).tolist():
                those = kinds == mode
                for plane, differences in zip(self.chroma, self.chroma_differences):
                    self.predict_whole(plane, differences, 8, mode, rows[those], columns[those])
        del self.differences, self.chroma_differences

    def predict_whole(self, plane, differences, size, mode, rows, columns):
        """Predicts the macroblocks of a wave that have the same mode."""
        lines, places = rows[:, None] * size + np.arange(size), columns[:, None] * size + np.arange(size)
        above = plane[(lines[:, :1] + BORDER - 1), places + BORDER].astype(np.int16)
        left = plane[lines + BORDER, (places[:, :1] + BORDER - 1)].astype(np.int16)
        if mode == VERTICAL:
            guess = above[:, None, :]
        elif mode == HORIZONTAL:
            guess = left[:, :, None]
        elif mode == TRUE_MOTION:
            corner = plane[lines[:, 0] + BORDER - 1, places[:, 0] + BORDER - 1].astype(np.int16)
            guess = clamp(left[:, :, None] + above[:, None, :] - corner[:, None, None], 0, 255)
        else:
            has_above, has_left = rows > 0, columns > 0
            count = (has_above + has_left.astype(np.int32)) * size
            sums = above.sum(1, np.int32) * has_above + left.sum(1, np.int32) * has_left
            guess = np.where(count > 0, (sums + (count >> 1)) // np.maximum(count, 1), 128)[:, None, None]
        samples = guess + differences[lines[:, :, None], places[:, None, :]]
        plane[lines[:, :, None] + BORDER, places[:, None, :] + BORDER] = clamp(samples, 0, 255)

    def predict_subblocks(self, rows, columns, submodes):
        """Predicts the macroblocks of a wave subblock by subblock."""
        plane, count, all_blocks = self.luma, len(rows), np.arange(len(rows))[:, None]
        modes = submodes[rows, columns]
        lines, places = rows[:, None, None] * 16 + np.arange(17)[:, None], columns[:, None, None] * 16 + np.arange(21)
        # The macroblocks with the row above and the column to the left.
        area = plane[lines + BORDER - 1, places + BORDER - 1].astype(np.int32)
        differences = self.differences[lines[:, :16], places[:, :, :16]]
        # The samples above and to the right of a macroblock serve all subblocks at its right edge.
        at_end = (columns == self.wide - 1) & (rows > 0)
        area[at_end, 0, 17:] = area[at_end, 0, 16:17]
        area[:, 4:13:4, 17:] = area[:, :1, 17:]
        edges, sources = np.empty((count, 13), np.int32), np.empty((count, 56), np.int32)
        for block in range(16):
            top, left = (block >> 2) * 4, (block & 3) * 4
            edges[:, 3::-1] = area[:, top + 1 : top + 5, left]
            edges[:, 4:] = area[:, top, left : left + 9]
            pairs = edges[:, :-1] + edges[:, 1:]
            sources[:, 1:12] = pairs[:, :-1] + pairs[:, 1:] + 2 >> 2
            sources[:, 0], sources[:, 12] = (
                pairs[:, 0] + 2 * edges[:, 0] + 2 >> 2,
                pairs[:, 11] + 2 * edges[:, 12] + 2 >> 2,
            )
            sources[:, 13:25] = pairs + 1 >> 1
            sources[:, 25] = edges[:, 0]
            sources[:, 26] = pairs[:, 0] + pairs[:, 2] + pairs[:, 5] + pairs[:, 7] + 4 >> 3
            motion = edges[:, 3::-1, None] + edges[:, None, 5:9] - edges[:, 4, None, None]
            sources[:, 40:] = clamp(motion, 0, 255).reshape(-1, 16)
            guess = sources[all_blocks, SOURCES[modes[:, block]]].reshape(-1, 4, 4)
            guess += differences[:, top : top + 4, left : left + 4]
            area[:, top + 1 : top + 5, left + 1 : left + 5] = clamp(guess, 0, 255)
        plane[lines[:, 1:] + BORDER - 1, places[:, :, 1:17] + BORDER - 1] = area[:, 1:, 1:17]

    def smooth(self):
        """Applies the loop filter."""
        if not self.level:
            return
        segments = np.frombuffer(self.segments, np.uint8).reshape(self.high, self.wide)
        by_subblock = np.frombuffer(self.modes, np.uint8).reshape(self.high, self.wide) == BY_SUBBLOCK
        levels = np.full((self.high, self.wide), self.level, np.int32)
        if self.has_segments:
            levels = np.array(self.segment_levels, np.int32)[segments] + (0 if self.is_absolute else self.level)
            levels = clamp(levels, 0, 63)
        if self.has_changes:
            levels = levels + self.level_changes[0] + by_subblock * self.level_changes[4]
        levels = clamp(levels, 0, 63)
        inside = levels
        if self.sharpness:
            inside = np.minimum(levels >> (2 if self.sharpness > 4 else 1), 9 - self.sharpness)
        inside = np.maximum(inside, 1)
        variances = (levels >= 15).astype(np.int32) + (levels >= 40)
        filters_inside = by_subblock | self.has_coefficients
        planes = [self.luma[None]] if self.is_simple else [self.luma[None], self.chroma]
        for rows, columns in self.waves():
            used = levels[rows, columns] > 0
            rows, columns = rows[used], columns[used]
            if not len(rows):
                continue
            limits = inside[rows, columns], variances[rows, columns], levels[rows, columns] * 2 + inside[rows, columns]
            for plane in planes:
                self.smooth_wave(plane, rows, columns, limits, filters_inside[rows, columns])

    def smooth_wave(self, planes, rows, columns, limits, filters_inside):
        size = 16 if planes is not self.chroma else 8
        span = np.arange(size + 4)
        lines, places = (rows * size)[:, None, None] + span[:, None], (columns * size)[:, None, None] + span
        samples = planes[:, lines, places].astype(np.int16)  # with four rows and columns of the neighbors
        inside, variance, edge = (np.tile(each, len(planes)).astype(np.int16)[:, None] for each in limits)
        samples = samples.reshape(-1, size + 4, size + 4)
        for is_row in False, True:
            view = samples.transpose(0, 2, 1) if is_row else samples
            has_neighbor = np.tile((rows if is_row else columns) > 0, len(planes))[:, None]
            within = np.tile(filters_inside, len(planes))[:, None]
            for at in range(0, size, 4):
                if at:
                    self.smooth_edge(view[:, 4:, at : at + 8], within, inside, variance, edge, False)
                else:
                    self.smooth_edge(view[:, 4:, :8], has_neighbor, inside, variance, edge + 4, True)
        planes[:, lines, places] = samples.reshape(len(planes), -1, size + 4, size + 4)

    def smooth_edge(self, samples, where, inside, variance, edge, between):
        """Smooths an edge, which is in the middle of eight samples: `between` macroblocks, or inside them."""
        p1, p0, q0, q1 = samples[:, :, 2], samples[:, :, 3], samples[:, :, 4], samples[:, :, 5]
        outer = p1 - q1
        steps = np.abs(samples[:, :, 1:] - samples[:, :, :-1])
        where = where & (steps[:, :, 3] * 4 + np.abs(outer) <= 2 * edge + 1)
        if self.is_simple:
            varies = np.ones_like(where)
        else:
            limits = np.where(MIDDLE, 255, inside[:, :, None])
            where &= (steps <= limits).all(2)
            varies = (steps[:, :, 2] > variance) | (steps[:, :, 4] > variance)
        if not where.any():
            return
        outer = clamp(outer, -128, 127)
        base = clamp((outer if between else outer * varies) + 3 * (q0 - p0), -128, 127)
        first, second = np.minimum(base + 4, 127) >> 3, np.minimum(base + 3, 127) >> 3
        changes = np.zeros((*base.shape, 6), np.int16)
        changes[:, :, 2], changes[:, :, 3] = second, -first
        if self.is_simple:
            pass
        elif between:
            steps = base[:, :, None] * WEIGHTS + 63 >> 7
            changes = np.where(varies[:, :, None], changes, np.concatenate((steps, -steps[:, :, ::-1]), 2))
        else:
            half = (first + 1 >> 1) * ~varies
            changes[:, :, 1], changes[:, :, 4] = half, -half
        changes *= where[:, :, None]
        samples[:, :, 1:7] = clamp(samples[:, :, 1:7] + changes, 0, 255)

    def write(self, pixels):
        """Converts the planes to RGB. Chroma is interpolated as in libwebp."""
        high, wide = (self.height + 1) // 2, (self.width + 1) // 2
        chroma = self.chroma[:, BORDER : BORDER + high, BORDER : BORDER + wide]
        x = np.arange(self.width)
        near, far = x >> 1, clamp(np.where(x & 1, (x >> 1) + 1, (x >> 1) - 1), 0, wide - 1)
        for first in range(0, self.height, STRIP_ROWS):
            last = min(first + STRIP_ROWS, self.height)
            y = np.arange(first, last)
            other = clamp(np.where(y & 1, (y >> 1) + 1, (y >> 1) - 1), 0, high - 1)
            sums = chroma[:, y >> 1].astype(np.int32) * 3 + chroma[:, other]
            blue, red = sums[:, :, near] * 3 + sums[:, :, far] + 8 >> 4
            luma = self.luma[first + BORDER : last + BORDER, BORDER : BORDER + self.width].astype(np.int32) * 19077 >> 8
            colors = (
                luma + (red * 26149 >> 8) - 14234,
                luma - (blue * 6419 >> 8) - (red * 13320 >> 8) + 8708,
                luma + (blue * 33050 >> 8) - 17685,
            )
            for channel, color in enumerate(colors):
                pixels[first:last, :, channel] = clamp(color >> 6, 0, 255)


# The blocks of a macroblock: index, kind of token probabilities, first coefficient, and positions in the contexts above
# and to the left. A context has 4 positions for luma, 2 for each chroma plane, and the last one for the means.
_LUMA = [(block, 0, 1, block & 3, block >> 2) for block in range(16)]
_CHROMA = [
    (16 + 4 * plane + block, 2, 0, 4 + 2 * plane + (block & 1), 4 + 2 * plane + (block >> 1))
    for plane in (0, 1)
    for block in range(4)
]
BLOCKS = [(24, 1, 0, 8, 8), *_LUMA, *_CHROMA]
LARGE_SPLITS = [(least, rows_of(chances)) for least, chances in LARGE]
BLOCKS_ALONE = [(block, 3, 0, one, other) for block, _, _, one, other in _LUMA] + _CHROMA
WEIGHTS = np.array((9, 18, 27), np.int16)
MIDDLE = np.arange(7) == 3
SHIFTS = [8 - span.bit_length() for span in range(256)]


def _sources():
    """Returns the sources of the 16 samples, by subblock mode: averages of three (0 to 12) and of two (13 to 24) edge
    samples, the first edge sample (25), the average of the edge (26), or the samples of true motion (40 to 55)."""
    two = 13
    return np.array(
        [
            [26] * 16,
            [40 + index for index in range(16)],
            [5 + index % 4 for index in range(16)],
            [3 - index // 4 for index in range(16)],
            [6 + index // 4 + index % 4 for index in range(16)],
            [4 - index // 4 + index % 4 for index in range(16)],
            [two + 4, two + 5, two + 6, two + 7, 4, 5, 6, 7, 3, two + 4, two + 5, two + 6, 2, 4, 5, 6],
            [two + 5, two + 6, two + 7, two + 8, 6, 7, 8, 9, two + 6, two + 7, two + 8, 10, 7, 8, 9, 11],
            [two + 3, 4, 5, 6, two + 2, 3, two + 3, 4, two + 1, 2, two + 2, 3, two, 1, two + 1, 2],
            [two + 2, 2, two + 1, 1, two + 1, 1, two, 0, two, 0, 25, 25, 25, 25, 25, 25],
        ]
    )


SOURCES = _sources()


def decode(data, pixels):
    """Decodes an image into `pixels`. The first three channels become red, green and blue."""
    frame = KeyFrame(data)
    frame.read_modes()
    frame.read_differences()
    frame.predict()
    frame.smooth()
    frame.write(pixels)
