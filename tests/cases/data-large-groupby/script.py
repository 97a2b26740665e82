import numpy as np
import pandas as pd

n = 200_000
rng = np.random.default_rng(2024)
df = pd.DataFrame({
    "user": rng.integers(0, 5_000, n),
    "product": rng.choice(["a", "b", "c", "d"], n),
    "amount": rng.integers(1, 100, n),
})
print(df.shape, df.isna().any().any())
stats = df.groupby("user")["amount"].agg(["count", "sum", "mean", "max"])
print(len(stats), int(stats["count"].sum()) == n, int(stats["sum"].sum()) == int(df["amount"].sum()))
by_product = df.groupby("product")["amount"].mean()
print(by_product.index.tolist(), ((by_product - 50).abs() < 1).all())
print(df.sort_values(["user", "amount"], ascending=[True, False]).iloc[0]["user"], df["amount"].between(1, 99).all())
users = pd.DataFrame({"user": np.arange(5_000), "group": np.arange(5_000) % 3})
joined = df.merge(users, on="user")
print(len(joined), (joined["user"] % 3 == joined["group"]).all())
pivot = joined.pivot_table(index="group", columns="product", values="amount", aggfunc="sum")
print(pivot.shape, int(pivot.values.sum()) == int(df["amount"].sum()))
print(df.drop_duplicates(["user", "product"]).shape[0] <= 20_000, df["product"].value_counts().sum())
