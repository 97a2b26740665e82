import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

data = np.random.default_rng(0).normal(size=1000)
plt.figure(figsize=(6, 4))
plt.hist(data, bins=30, edgecolor="black")
plt.title("Histogram")
plt.ylabel("n")
plt.savefig("hist.png", dpi=150, bbox_inches=None)
plt.show()
plt.close()

fig, ax = plt.subplots()
scatter = ax.scatter(data[:100], data[100:200], c=data[200:300], cmap="viridis")
fig.colorbar(scatter)
fig.savefig("scatter.svg")
fig.savefig("scatter.pdf")

print(open("hist.png", "rb").read(8) == b"\x89PNG\r\n\x1a\n", Image.open("hist.png").size)
print("<svg" in open("scatter.svg").read(), open("scatter.pdf", "rb").read(5))
