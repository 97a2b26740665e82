import numpy as np
import pandas as pd

ages = pd.Series([3, 17, 18, 25, 34, 49, 50, 66, 81, 12], name="age")
groups = pd.cut(ages, bins=[0, 18, 35, 65, 120], labels=["child", "young", "middle", "old"], right=False)
print(groups.value_counts(sort=False).to_string())
print(groups.cat.ordered, (groups >= "middle").sum(), groups.max())

quartiles = pd.qcut(ages, 4)
print(quartiles.cat.categories.astype(str).tolist())
print(pd.crosstab(groups, ages % 2 == 0).to_string())

size = pd.Categorical(["M", "S", "L", "M"], categories=["S", "M", "L"], ordered=True)
df = pd.DataFrame({"size": size, "n": [1, 2, 3, 4]})
print(df.sort_values("size").to_string(index=False))
print(df.groupby("size", observed=False)["n"].sum().to_dict(), df["size"].cat.codes.tolist())
print(pd.get_dummies(df["size"], prefix="size", dtype=int).to_string())
counts, edges = np.histogram(ages, bins=4)
print(counts.tolist(), edges.tolist())
