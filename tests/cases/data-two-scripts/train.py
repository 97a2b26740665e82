import pickle

import pandas as pd
from sklearn.linear_model import LinearRegression

df = pd.read_csv("raw.csv").dropna().drop_duplicates()
df.to_csv("clean.csv", index=False)
model = LinearRegression().fit(df[["x"]], df["y"])
with open("model.pkl", "wb") as f:
    pickle.dump(model, f)
print(len(df), "rows kept")
