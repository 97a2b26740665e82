import io

from PIL import Image, features

img = Image.radial_gradient("L").convert("RGB").resize((32, 32))
for name in "PNG", "GIF", "BMP", "TIFF", "PPM", "ICO", "TGA", "JPEG":
    buffer = io.BytesIO()
    try:
        img.save(buffer, name)
    except Exception as error:
        print(name, type(error).__name__, error)
        continue
    buffer.seek(0)
    again = Image.open(buffer)
    again.load()
    print(name, again.format, again.size, again.convert("RGB").tobytes() == img.tobytes())
frames = [Image.new("RGB", (8, 8), (i * 80, 0, 0)) for i in range(3)]
frames[0].save("anim.gif", save_all=True, append_images=frames[1:], duration=100, loop=0)
print(Image.open("anim.gif").n_frames, features.check("zlib"), features.check("jpg"), features.check("webp"))
