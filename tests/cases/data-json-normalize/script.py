import json

import pandas as pd

with open("orders.json", encoding="utf-8") as f:
    data = json.load(f)

flat = pd.json_normalize(data["orders"], sep="_")
print(flat.drop(columns="items").to_string())
items = pd.json_normalize(data["orders"], record_path="items", meta=["id", ["customer", "name"]])
items["total"] = items["qty"] * items["price"]
print(items.to_string())

by_customer = items.groupby("customer.name")["total"].sum().round(2)
by_customer.to_json("totals.json", indent=2)
print(json.loads(by_customer.to_json()))
print(pd.read_json("totals.json", typ="series").to_dict())
print(flat[["id", "customer_name"]].to_json(orient="records"))
items.to_json("items.jsonl", orient="records", lines=True)
print(len(pd.read_json("items.jsonl", lines=True)))
