"""`PIL._webp`: reads and writes WebP files, still and animated (RFC 9649). Runs inside the guest, with numpy.

Encodes only losslessly. The modules `lossless` and `lossy` decode the two kinds of images.
"""

import numpy as np

HEADER = b"RIFF"
LOSSY_HINT = "lossy WebP encoding is not available; save with `lossless=True`, or as JPEG"
MOST_CHUNKS = 1 << 16
HAS_ICC, HAS_ALPHA, HAS_EXIF, HAS_XMP, HAS_ANIMATION = 0x20, 0x10, 8, 4, 2


class Broken(Exception):
    """The file is invalid."""


def chunks(data):
    """Yields the name and the content of each chunk."""
    at, count = 0, 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        count += 1
        if at + 8 + size > len(data) or count > MOST_CHUNKS:
            raise Broken
        yield bytes(data[at : at + 4]), data[at + 8 : at + 8 + size]
        at += 8 + size + (size & 1)


class Frame:
    """A frame: its place on the canvas, its duration in milliseconds, and its encoded image."""

    def __init__(self, parts, place=None, duration=0, blends=False, clears=False):
        self.alpha, self.image, self.kind = None, None, None
        for name, content in parts:
            if name == b"ALPH" and self.image is None:
                self.alpha = content
            elif name in (b"VP8 ", b"VP8L") and self.image is None:
                self.image, self.kind = content, name
        if self.image is None:
            raise Broken
        if self.kind == b"VP8L":
            self.width, self.height, uses_alpha = lossless.header(self.image)
            self.has_alpha = bool(uses_alpha)
        else:
            self.width, self.height = lossy.header(self.image)
            self.has_alpha = self.alpha is not None
        self.left, self.top = 0, 0
        if place:
            self.left, self.top = place[:2]
            if place[2:] != (self.width, self.height):
                raise Broken
        self.duration, self.blends, self.clears = duration, blends, clears

    def pixels(self):
        """Returns the pixels as rows of red, green, blue and alpha."""
        if self.kind == b"VP8L":
            pixels = np.ascontiguousarray(lossless.decode(self.image[5:], self.width, self.height))
            pixels = pixels.view(np.uint8).reshape(self.height, self.width, 4)[..., [2, 1, 0, 3]]
            if not self.has_alpha:
                pixels[..., 3] = 255
            return pixels
        pixels = np.empty((self.height, self.width, 4), np.uint8)
        pixels[..., 3] = 255
        lossy.decode(self.image, pixels)
        if self.alpha is not None:
            pixels[..., 3] = self.alphas()
        return pixels

    def alphas(self):
        """Decodes the alpha channel of a lossy image."""
        if not len(self.alpha):
            raise Broken
        compression, kind = self.alpha[0] & 3, self.alpha[0] >> 2 & 3
        if compression == 1:
            values = (lossless.decode(self.alpha[1:], self.width, self.height) >> 8 & 255).astype(np.uint8)
        elif compression == 0 and len(self.alpha) > self.width * self.height:
            values = np.frombuffer(self.alpha, np.uint8, self.width * self.height, 1)
            values = values.reshape(self.height, self.width).copy()
        else:
            raise Broken
        if kind == 1:
            values[:, 0] = np.cumsum(values[:, 0], dtype=np.uint8)
            return np.cumsum(values, 1, np.uint8)
        if kind:
            values[0] = np.cumsum(values[0], dtype=np.uint8)
        if kind == 2:
            return np.cumsum(values, 0, np.uint8)
        if kind == 3:
            above = values[0].tolist()
            for row in range(1, self.height):
                here, corner = values[row].tolist(), above[0]
                left = here[0] = here[0] + corner & 255
                for column in range(1, self.width):
                    top = above[column]
                    guess = left + top - corner
                    left = here[column] = here[column] + (0 if guess < 0 else 255 if guess > 255 else guess) & 255
                    corner = top
                values[row] = above = here
        return values


class WebPAnimDecoder:
    """Decodes the frames of a file onto its canvas, in order."""

    def __init__(self, data):
        try:
            self._read(memoryview(data))
        except (Broken, lossless.Broken, lossy.Broken, IndexError, ValueError):
            raise OSError("could not create decoder object") from None
        self.reset()

    def _read(self, data):
        end = 8 + int.from_bytes(data[4:8], "little")
        if data[:4] != HEADER or data[8:12] != b"WEBP" or end > len(data) or end < 20:
            raise Broken
        # A file without `VP8X` consists of one image. Later chunks are ignored.
        self.parts, self.loop, self.background, self.frames = {}, 1, 0xFFFFFFFF, []
        first = data[12:16]
        if first != b"VP8X":
            parts = [next(chunks(data[12:end]))]
            self.frames = [Frame(parts)]
            self.size, self.has_alpha = (self.frames[0].width, self.frames[0].height), self.frames[0].has_alpha
            return
        parts = list(chunks(data[12:end]))
        flags = parts[0][1]
        self.has_alpha, is_animated = bool(flags[0] & HAS_ALPHA), bool(flags[0] & HAS_ANIMATION)
        self.size = int.from_bytes(flags[4:7], "little") + 1, int.from_bytes(flags[7:10], "little") + 1
        for name, content in parts[1:]:
            if name == b"ANIM" and is_animated:
                self.background, self.loop = int.from_bytes(content[:4], "little"), int.from_bytes(
                    content[4:6], "little"
                )
            elif name == b"ANMF" and is_animated:
                left, top, width, height, duration = (
                    int.from_bytes(content[at : at + 3], "little") for at in range(0, 15, 3)
                )
                place = left * 2, top * 2, width + 1, height + 1
                if place[0] + place[2] > self.size[0] or place[1] + place[3] > self.size[1]:
                    raise Broken
                blends, clears = not content[15] & 2, bool(content[15] & 1)
                self.frames.append(Frame(chunks(content[16:]), place, duration, blends, clears))
            elif name not in (b"ANIM", b"ANMF", b"ALPH", b"VP8 ", b"VP8L"):
                self.parts.setdefault(name, content)
        if not is_animated:
            self.frames = [Frame(parts[1:])]
            if (self.frames[0].width, self.frames[0].height) != self.size:
                raise Broken
        if not self.frames:
            raise Broken

    def get_info(self):
        return self.size, self.loop, self.background, len(self.frames), "RGBA" if self.has_alpha else "RGBX"

    def get_chunk(self, name):
        content = self.parts.get(name.encode())
        return None if content is None else bytes(content)

    def reset(self):
        self.next, self.time, self.canvas, self.was_key = 0, 0, None, True

    def get_next(self):
        if self.next >= len(self.frames):
            raise OSError("failed to read next frame")
        frame, before = self.frames[self.next], self.frames[self.next - 1] if self.next else None
        try:
            pixels = frame.pixels()
        except (Broken, lossless.Broken, lossy.Broken, IndexError, ValueError, KeyError):
            raise OSError("failed to read next frame") from None
        is_whole = (frame.width, frame.height) == self.size
        is_key = before is None or is_whole and not (frame.has_alpha and frame.blends)
        if before is not None and before.clears:
            is_key = is_key or self.was_key or (before.width, before.height) == self.size
        if is_whole and (is_key or not frame.blends):
            self.canvas = pixels
        else:
            if self.canvas is None or is_key:
                self.canvas = np.zeros((self.size[1], self.size[0], 4), np.uint8)
            elif before.clears:
                self.canvas[before.top : before.top + before.height, before.left : before.left + before.width] = 0
            target = self.canvas[frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
            target[:] = pixels if is_key or not frame.blends else blended(target, pixels)
        self.was_key = is_key
        self.next += 1
        self.time += frame.duration
        return self.canvas.tobytes(), self.time


def blended(under, over):
    """Blends the pixels `over` onto the pixels `under`, with the rounding of libwebp."""
    alpha = over[..., 3:].astype(np.int64)
    rest = under[..., 3:].astype(np.int64) * (256 - alpha) >> 8
    both = alpha + rest
    colors = (over[..., :3] * alpha + under[..., :3] * rest) * ((1 << 24) // np.maximum(both, 1)) >> 24
    return np.where(alpha == 0, under, np.concatenate((colors, both), -1).astype(np.uint8))


class Picture:
    """The argument of `WebPEncode`, in place of the pointer that Pillow passes: Python code cannot read pointers."""

    def __init__(self, image):
        self.image, self.mode = image, image.mode

    def getim(self):
        return self.image


def encoded(image, is_lossless):
    """Encodes an image. Returns its chunk, its size, and `True` if it has an alpha channel."""
    if not is_lossless:
        raise OSError(LOSSY_HINT)
    width, height = image.size
    if max(width, height) > 16383:
        raise ValueError("encoding error 5: Image size exceeds WebP limit of 16383 pixels")
    if image.mode == "RGBA":
        pixels = np.frombuffer(image.tobytes("raw", "BGRA"), np.uint32).reshape(height, width)
        has_alpha = bool((pixels < 0xFF000000).any())
    else:
        channels = np.full((height, width, 4), 255, np.uint8)
        channels[..., :3] = np.frombuffer(image.convert("RGB").tobytes("raw", "BGR"), np.uint8).reshape(
            height, width, 3
        )
        pixels, has_alpha = channels.view(np.uint32)[..., 0], False
    return chunk(b"VP8L", lossless.encode(pixels, has_alpha)), (width, height), has_alpha


def chunk(name, content):
    return name + len(content).to_bytes(4, "little") + content + bytes(len(content) & 1)


def file_of(body, size, has_alpha, icc, exif, xmp, is_animated=False):
    """Returns the bytes of a file. The extended header is included only for metadata and animations."""
    icc, exif, xmp = (each.encode() if isinstance(each, str) else bytes(each or b"") for each in (icc, exif, xmp))
    flags = has_alpha * HAS_ALPHA | is_animated * HAS_ANIMATION
    flags |= bool(icc) * HAS_ICC | bool(exif) * HAS_EXIF | bool(xmp) * HAS_XMP
    if icc or exif or xmp or is_animated:
        header = bytes([flags, 0, 0, 0]) + (size[0] - 1).to_bytes(3, "little") + (size[1] - 1).to_bytes(3, "little")
        head = chunk(b"VP8X", header) + (chunk(b"ICCP", icc) if icc else b"")
        body = head + body + (chunk(b"EXIF", exif) if exif else b"") + (chunk(b"XMP ", xmp) if xmp else b"")
    return chunk(HEADER, b"WEBP" + body)


def WebPEncode(image, is_lossless, quality, alpha_quality, icc, method, exact, exif, xmp):
    body, size, has_alpha = encoded(image, is_lossless)
    return file_of(body, size, has_alpha, icc, exif, xmp)


class WebPAnimEncoder:
    """Encodes an animation. Every frame covers the whole canvas."""

    def __init__(self, size, background, loop, minimize_size, kmin, kmax, allow_mixed, verbose):
        self.size, self.header = size, background.to_bytes(4, "little") + loop.to_bytes(2, "little")
        self.frames, self.has_alpha = [], False

    def add(self, image, timestamp, is_lossless, quality, alpha_quality, method):
        body = None
        if image is not None:
            body, size, has_alpha = encoded(image, is_lossless)
            if size != self.size:
                raise RuntimeError("ERROR adding frame: Invalid frame dimensions")
            self.has_alpha = self.has_alpha or has_alpha
        self.frames.append((timestamp, body))

    def assemble(self, icc, exif, xmp):
        parts = [chunk(b"ANIM", self.header)]
        for (start, body), (end, _) in zip(self.frames, self.frames[1:]):
            numbers = 0, 0, self.size[0] - 1, self.size[1] - 1, max(end - start, 0)
            place = b"".join(number.to_bytes(3, "little") for number in numbers)
            parts.append(chunk(b"ANMF", place + b"\2" + body))  # no blending: the frame replaces the previous one
        return file_of(b"".join(parts), self.size, self.has_alpha, icc, exif, xmp, True)
