import pickle
from pathlib import Path

import pandas as pd

with open("model.pkl", "rb") as f:
    model = pickle.load(f)
assert len(pd.read_csv("clean.csv")) == 5
new = pd.DataFrame({"x": [15.0, 25.0]})
result = pd.Series(model.predict(new).round(6), index=[15, 25])
Path("out").mkdir()
result.to_json("out/predictions.json")
print(result.tolist())
