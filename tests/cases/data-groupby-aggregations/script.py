import numpy as np
import pandas as pd

df = pd.DataFrame({
    "team": ["a", "b", "a", "c", "b", "a", "c", "b"],
    "year": [2023, 2023, 2024, 2023, 2024, 2024, 2024, 2024],
    "score": [10.0, 20.0, 30.0, 5.0, np.nan, 50.0, 15.0, 40.0],
})

summary = df.groupby("team").agg(
    n=("score", "size"),
    known=("score", "count"),
    mean=("score", "mean"),
    std=("score", "std"),
    spread=("score", lambda s: s.max() - s.min()),
    years=("year", "nunique"),
).round(3)
print(summary.to_string())

multi = df.groupby(["team", "year"])["score"].agg(["sum", "median", "max"])
print(multi.to_string())
df["share"] = (df["score"] / df.groupby("team")["score"].transform("sum")).round(3)
df["rank"] = df.groupby("team")["score"].rank(ascending=False, method="dense")
print(df.to_string())
print(df.groupby("team").filter(lambda g: len(g) > 2)["team"].unique().tolist())
print(df.groupby("year")["score"].quantile([0.25, 0.75]).unstack().to_string())
