import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

img = Image.new("RGB", (200, 100), "white")
draw = ImageDraw.Draw(img)
draw.rectangle([20, 20, 100, 80], fill=(255, 0, 0))
draw.ellipse([120, 20, 180, 80], fill="blue", outline="black")
draw.text((5, 5), "Hello", fill=0)
img.save("drawing.png")

small = Image.open("drawing.png").resize((50, 25), Image.Resampling.LANCZOS)
small.save("small.png", optimize=True)
with Image.open("small.png") as back:
    print(back.format, back.size, back.mode, back.getpixel((15, 12)))

thumb = img.copy()
thumb.thumbnail((64, 64))
print(thumb.size, img.crop((20, 20, 60, 60)).getcolors(), img.rotate(90, expand=True).size)
gray = ImageOps.grayscale(img)
print(gray.mode, gray.getextrema(), np.asarray(gray).shape, ImageOps.invert(gray).getpixel((0, 99)))
print(img.filter(ImageFilter.GaussianBlur(2)).getpixel((60, 50)), np.asarray(img)[50, 150].tolist())

checker = np.indices((8, 8)).sum(axis=0) % 2 * 255
Image.fromarray(checker.astype("uint8")).save("checker.png")
print(int(np.asarray(Image.open("checker.png")).sum()))
