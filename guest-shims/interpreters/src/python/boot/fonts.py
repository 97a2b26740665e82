"""Implements `PIL._imagingft` with matplotlib's FreeType, because this Pillow is built without FreeType."""


class Font:
    """Replaces Pillow's font type, with basic layout. Advances and pen positions are 26.6 fixed-point numbers."""

    def __init__(self, source, size, index):
        from matplotlib import ft2font

        self._ft2font, self._face = ft2font, ft2font.FT2Font(source, face_index=index)
        face = self._face
        face.set_size(size, 72)
        scale = size / (face.units_per_EM or 1)
        self.family, self.style, self.glyphs = face.family_name, face.style_name, face.num_glyphs
        self.x_ppem = self.y_ppem = round(size)
        self.ascent, self.descent = math.ceil(face.ascender * scale), math.ceil(-face.descender * scale)
        self.height = math.floor(face.height * scale + 0.5)

    def _flags(self, mode):
        flags = self._ft2font.LoadFlags
        return flags.TARGET_MONO if mode == "1" else flags(0)

    def _glyphs(self, text, mode, direction, features, language):
        """Returns the glyph index and the advance of each character."""
        if direction is not None or features is not None or language is not None:
            raise KeyError("setting text direction, language or font features is not supported without libraqm")
        if not isinstance(text, str):
            text = text.decode("latin-1")
        face, flags, glyphs = self._face, self._flags(mode), []
        for char in text:
            index = face.get_char_index(ord(char))
            if glyphs and index and glyphs[-1][0]:
                # Like Pillow, adds the kerning in whole pixels to the fixed-point advance.
                glyphs[-1][1] += pixels(face.get_kerning(glyphs[-1][0], index, self._ft2font.Kerning.DEFAULT))
            glyphs.append([index, face.load_glyph(index, flags).horiAdvance])
        return glyphs

    def _measure(self, glyphs, mode, anchor):
        """Returns the offset of the text from its anchor, its size, and the left and top edges of its glyphs."""
        anchor = anchor or "la"
        if len(anchor) != 2 or anchor[0] not in "lmr" or anchor[1] not in "atmsbd":
            raise ValueError("bad anchor specified")
        if not glyphs:
            return (0, 0), (0, 0), 0, 0
        pen = left = right = top = bottom = 0
        for index, advance in glyphs:
            x0, y0, x1, y1 = self._face.load_glyph(index, self._flags(mode)).bbox
            x = pixels(pen)
            pen += advance
            left, right = min(left, x + (x0 >> 6)), max(right, x + (x1 + 63 >> 6), pixels(pen))
            bottom, top = min(bottom, y0 >> 6), max(top, y1 + 63 >> 6)
        x = {"l": 0, "m": pixels(pen // 2), "r": pixels(pen)}[anchor[0]]
        middle = pixels((self.ascent - self.descent) * 32)
        y = {"a": self.ascent, "t": top, "m": middle, "s": 0, "b": bottom, "d": -self.descent}[anchor[1]]
        return (left - x, y - top), (right - left, top - bottom), left, top

    def getlength(self, text, mode, direction, features, language):
        return sum(advance for _, advance in self._glyphs(text, mode, direction, features, language))

    def getsize(self, text, mode, direction, features, language, anchor):
        glyphs = self._glyphs(text, mode, direction, features, language)
        offset, size, _, _ = self._measure(glyphs, mode, anchor)
        return size, offset

    def render(self, text, fill, mode, direction, features, language, stroke, filled, anchor, ink, start):
        import numpy

        glyphs = self._glyphs(text, mode, direction, features, language)
        (x, y), (width, height), left, top = self._measure(glyphs, mode, anchor)
        width, height = (math.ceil(each + stroke * 2 + more) for each, more in zip((width, height), start))
        image, offset = fill(width, height), (round(x - stroke), round(y - stroke))
        if not glyphs or not width or not height:
            return image, offset
        mask, modes = numpy.zeros((height, width), numpy.uint8), self._ft2font.RenderMode
        pen, base = round((stroke + start[0] - left) * 64), pixels(round((-top - stroke - start[1]) * 64))
        for index, advance in glyphs:
            glyph = self._face._render_glyph(index, self._flags(mode), modes.MONO if mode == "1" else modes.NORMAL)
            bitmap = numpy.asarray(glyph.buffer)
            x0, y0 = pixels(pen) + glyph.left, -base - glyph.top
            pen += advance
            bitmap = bitmap[max(-y0, 0) : max(height - y0, 0), max(-x0, 0) : max(width - x0, 0)]
            x0, y0 = max(x0, 0), max(y0, 0)
            below = mask[y0 : y0 + bitmap.shape[0], x0 : x0 + bitmap.shape[1]]
            if mode == "1":
                below |= numpy.where(bitmap, numpy.uint8(255), numpy.uint8(0))
            else:
                both = below.astype(numpy.uint16) * bitmap + 128
                below += bitmap - ((both >> 8) + both >> 8).astype(numpy.uint8)
        if stroke:
            mask = stroked(mask, stroke, filled)
        self._paste(image, mask, mode, ink)
        return image, offset

    def _paste(self, image, mask, mode, ink):
        from PIL import Image

        size = mask.shape[1], mask.shape[0]
        text = Image.frombytes("L", size, mask.tobytes())
        if mode == "RGBA":
            color = Image.new("RGB", size, ink & 0xFFFFFF)
            color.putalpha(text)
            text = color
        image.paste(text.im, (0, 0, *size))

    def setvarname(self, index):
        raise OSError("not a variation font")

    getvarnames = getvaraxes = setvaraxes = lambda self, *_: self.setvarname(0)


def pixels(length):
    """Rounds a 26.6 fixed-point length to whole pixels."""
    return length + 32 >> 6


def stroked(mask, width, filled):
    """Returns the outline of `mask`, `width` pixels wide on either side. Includes the interior if `filled`."""
    import numpy

    reach = math.ceil(width)
    outer, inner = mask.copy(), 255 - mask
    outside = inner.copy()
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            weight = min(max(width + 1 - math.hypot(down, right), 0), 1)
            if not weight:
                continue
            here = slice(max(down, 0), min(down, 0) or None), slice(max(right, 0), min(right, 0) or None)
            there = slice(max(-down, 0), min(-down, 0) or None), slice(max(-right, 0), min(-right, 0) or None)
            for target, source in ((outer, mask), (outside, inner)):
                numpy.maximum(target[here], (source[there] * weight).astype(numpy.uint8), out=target[here])
    return outer if filled else numpy.minimum(outer, outside)


def getfont(filename, size=10, index=0, encoding="", font_bytes=None, layout_engine=0):
    """Opens a font by path, or by the file name of a font that matplotlib contains, such as `DejaVuSans.ttf`."""
    from matplotlib import get_data_path

    if font_bytes:
        source = io.BytesIO(font_bytes)
    else:
        source = filename = os.fsdecode(filename)
        if not os.path.exists(source):
            source = os.path.join(get_data_path(), "fonts/ttf", os.path.basename(filename))
    try:
        return Font(source, size, index)
    except FileNotFoundError:
        raise OSError("cannot open resource") from None
    except RuntimeError:
        raise OSError("unknown file format") from None


def provide_fonts(package):
    module = types.ModuleType("PIL._imagingft")
    for each in (getfont, freetype_version, Font, *vars(Font).values()):
        if isinstance(each, (type, types.FunctionType)):
            each.__module__ = module.__name__
    module.HAVE_RAQM = module.HAVE_FRIBIDI = module.HAVE_HARFBUZZ = False
    module.getfont, module.Font = getfont, Font
    module.__getattr__ = freetype_version
    package._imagingft = sys.modules["PIL._imagingft"] = module


def freetype_version(name):
    if name != "freetype2_version":
        raise AttributeError(f"module 'PIL._imagingft' has no attribute {name!r}", name=name)
    from matplotlib.ft2font import __freetype_version__

    return __freetype_version__


late["PIL"] = provide_fonts
