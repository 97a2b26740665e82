"""JPEG and WebP for Pillow, which is built without libjpeg and libwebp. The codecs are separate modules in
`../images`, which run when a script first decodes or encodes such an image. `IMAGE_SOURCES` precedes this file (see
boot.rs)."""

image_code = {name: compile(text, DRIVER_NAME, "exec", 0, True) for name, text in IMAGE_SOURCES.items()}
image_modules = {}
del IMAGE_SOURCES


def image_module(name):
    if name not in image_modules:
        module = types.ModuleType("PIL._" + name)
        if name == "webp":
            module.lossless, module.lossy = image_module("webp_lossless"), image_module("webp_lossy")
        exec(image_code[name], module.__dict__)
        image_modules[name] = module
    return image_modules[name]


def jpeg_decoder(*args):
    return image_module("jpeg_read").JpegDecoder(*args)


def jpeg_encoder(*args):
    return image_module("jpeg_write").JpegEncoder(*args)


def webp_attribute(name):
    if name == "webpdecoder_version":
        return "numpy"
    if name not in ("WebPAnimDecoder", "WebPAnimEncoder", "WebPEncode"):
        raise AttributeError(f"module 'PIL._webp' has no attribute {name!r}", name=name)
    return getattr(image_module("webp"), name)


def provide_codecs(image):
    core = image.core
    if not hasattr(core, "jpeg_decoder"):
        core.jpeg_decoder, core.jpeg_encoder, core.jpeglib_version = jpeg_decoder, jpeg_encoder, "numpy"
    module = types.ModuleType("PIL._webp")
    module.__getattr__ = webp_attribute
    sys.modules["PIL"]._webp = sys.modules["PIL._webp"] = module


def provide_pictures(plugin):
    convert_frame = plugin._convert_frame

    def _convert_frame(image):
        # The encoder gets the image itself instead of a pointer, which only C code can read.
        return image_module("webp").Picture(convert_frame(image))

    _convert_frame.__module__ = plugin.__name__
    plugin._convert_frame = _convert_frame


jpeg_decoder.__module__ = jpeg_encoder.__module__ = "PIL._imaging"
webp_attribute.__module__ = "PIL._webp"
late["PIL.Image"], late["PIL.WebPImagePlugin"] = provide_codecs, provide_pictures
