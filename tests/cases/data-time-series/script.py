import numpy as np
import pandas as pd

idx = pd.date_range("2024-01-01", periods=90, freq="D")
s = pd.Series(np.arange(90) % 7 + np.linspace(0, 3, 90), index=idx, name="load")

weekly = s.resample("W").agg(["mean", "min", "max"]).round(2)
print(weekly.head(4).to_string())
monthly = s.resample("ME").sum().round(2)
print(monthly.to_string())

rolled = s.rolling(window=7).mean()
print(rolled.dropna().head(3).round(3).tolist(), int(rolled.isna().sum()))
print(s.ewm(span=5).mean().iloc[-1].round(3), s.expanding().max().iloc[10].round(3))
change = s.pct_change().replace([np.inf, -np.inf], np.nan)
print(change.abs().idxmax(skipna=True).date())
print(s.groupby(s.index.day_name()).mean().round(2).to_dict())
print(s.loc["2024-02"].shape, s["2024-03-30":].round(2).tolist())
print(s.shift(1).iloc[:2].tolist(), s.asfreq("15D").index.strftime("%m-%d").tolist())
