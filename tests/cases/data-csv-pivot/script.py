import pandas as pd

df = pd.read_csv("sales.csv", parse_dates=["date"])
df["revenue"] = df["units"] * df["price"]
df["month"] = df["date"].dt.strftime("%Y-%m")

pivot = pd.pivot_table(
    df,
    index="region",
    columns="month",
    values="revenue",
    aggfunc="sum",
    fill_value=0,
    margins=True,
    margins_name="Total",
).round(2)

print(df.shape)
print(pivot.to_string())
pivot.to_csv("pivot.csv")
