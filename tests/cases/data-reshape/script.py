import pandas as pd

wide = pd.read_csv("grades.csv")
long = wide.melt(id_vars=["student", "class"], var_name="subject", value_name="grade")
print(long.to_string())

back = long.pivot(index=["class", "student"], columns="subject", values="grade")
print(back.to_string())

stacked = back.stack()
print(type(stacked.index).__name__, stacked.loc[("1a", "ann")].to_dict())
print(stacked.unstack("student").to_string())

tags = pd.DataFrame({"id": [1, 2], "tags": ["red,blue", "green"]})
tags["tags"] = tags["tags"].str.split(",")
print(tags.explode("tags", ignore_index=True).to_string())

many = pd.DataFrame({"id": [1, 2], "x_2020": [5, 6], "x_2021": [7, 8]})
print(pd.wide_to_long(many, stubnames="x", i="id", j="year", sep="_").sort_index().to_string())
