"""JPEG for Pillow, which is built without libjpeg. The codecs are modules of their own (`../images`), which run when a
script first decodes or encodes such an image. `IMAGE_SOURCES` precedes this file (see boot.rs)."""

image_code = {name: compile(text, DRIVER_NAME, "exec", 0, True) for name, text in IMAGE_SOURCES.items()}
image_modules = {}
del IMAGE_SOURCES


def image_module(name):
    if name not in image_modules:
        module = types.ModuleType("PIL._" + name)
        exec(image_code[name], module.__dict__)
        image_modules[name] = module
    return image_modules[name]


def jpeg_decoder(*args):
    return image_module("jpeg_read").JpegDecoder(*args)


def jpeg_encoder(*args):
    return image_module("jpeg_write").JpegEncoder(*args)


def provide_codecs(image):
    core = image.core
    if not hasattr(core, "jpeg_decoder"):
        core.jpeg_decoder, core.jpeg_encoder, core.jpeglib_version = jpeg_decoder, jpeg_encoder, "numpy"


for _function in jpeg_decoder, jpeg_encoder:
    _function.__module__ = "PIL._imaging"
late["PIL.Image"] = provide_codecs
