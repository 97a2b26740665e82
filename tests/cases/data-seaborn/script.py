import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from PIL import Image

sns.set_theme(style="whitegrid")
rng = np.random.default_rng(3)
df = pd.DataFrame({"x": np.arange(40.0), "kind": ["a", "b"] * 20})
df["y"] = df["x"] * 2 + rng.normal(size=40)

fig, axes = plt.subplots(1, 3, figsize=(12, 4))
sns.heatmap(df[["x", "y"]].corr(), annot=True, fmt=".2f", ax=axes[0])
sns.regplot(data=df, x="x", y="y", ax=axes[1])
sns.boxplot(data=df, x="kind", y="y", hue="kind", ax=axes[2])
fig.savefig("figure.png", dpi=50)
print(axes[0].texts[1].get_text(), axes[1].get_xlabel(), Image.open("figure.png").size)

grid = sns.relplot(data=df, x="x", y="y", hue="kind", col="kind", height=2)
grid.savefig("grid.png", dpi=50)
print(grid.axes.shape, open("grid.png", "rb").read(4))
