import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

df = pd.read_csv("visits.csv", parse_dates=["day"], index_col="day")
fig, axes = plt.subplots(2, 2, figsize=(10, 6))
df.plot(ax=axes[0, 0], title="visits")
df.sum().plot.bar(ax=axes[0, 1], rot=0)
df.plot.box(ax=axes[1, 0])
df.plot.scatter(x="web", y="app", ax=axes[1, 1])
fig.autofmt_xdate()
fig.savefig("visits.png", dpi=80)
print([ax.get_title() for ax in axes.flat], len(axes[0, 0].get_lines()), len(axes[0, 1].patches))
print(Image.open("visits.png").size)
