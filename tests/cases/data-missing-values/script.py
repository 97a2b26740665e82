import pandas as pd

df = pd.read_csv("weather.csv", na_values=["-", "n/a"])
print(df.dtypes.to_string())
print(df.isna().sum().to_dict())
print(len(df.dropna()), len(df.dropna(thresh=3)), len(df.dropna(subset=["city"])))

df["city"] = df["city"].ffill()
df["temp"] = df.groupby("city")["temp"].transform(lambda t: t.fillna(t.mean()))
df["rain"] = df["rain"].interpolate(limit_direction="both")
df["note"] = df["note"].fillna("none")
print(df.to_string())
print(df["station"].astype("Int64").tolist())
print(pd.Series([1, None, 3], dtype="Int64").sum(), pd.isna(pd.NaT), pd.NA | True)
df.to_csv("clean.csv", index=False)
