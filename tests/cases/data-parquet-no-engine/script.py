import pandas as pd

df = pd.DataFrame({"a": [1, 2]})
for attempt in (lambda: df.to_parquet("x.parquet"), lambda: pd.read_parquet("x.parquet")):
    try:
        attempt()
    except ImportError as error:
        print("Unable to find a usable engine" in str(error), "pyarrow" in str(error), "fastparquet" in str(error))
df.to_pickle("x.pkl")
print(pd.read_pickle("x.pkl").equals(df))
