import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

x = np.linspace(0, 10, 200)
fig, axes = plt.subplots(1, 2, figsize=(8, 4), dpi=100)
axes[0].plot(x, np.sin(x), label="sin")
axes[0].plot(x, np.cos(x), "--", label="cos")
axes[0].set_title("Waves")
axes[0].set_xlabel("t [s]")
axes[0].legend()
axes[0].grid(True, alpha=0.3)
axes[1].bar(["a", "b", "c"], [3, 7, 5], color="tab:green")
axes[1].set_title(r"$\alpha_i$ per group")
plt.tight_layout()
plt.savefig("plot.png")
plt.close(fig)

with open("plot.png", "rb") as f:
    print(f.read(8))
with Image.open("plot.png") as img:
    print(img.format, img.size, len(img.convert("RGB").getcolors(1 << 20)) > 10)
    print(img.convert("RGB").getpixel((2, 2)))
print(matplotlib.get_backend().lower())
