import pandas as pd

customers = pd.read_csv("customers.csv")
orders = pd.read_csv("orders.csv")

inner = orders.merge(customers, on="customer_id", how="inner", validate="many_to_one")
print(inner[["order_id", "name", "amount"]].to_string(index=False))

outer = orders.merge(customers, on="customer_id", how="outer", indicator=True)
print(outer["_merge"].value_counts().to_dict())
print("no order:", outer.loc[outer["_merge"] == "right_only", "name"].tolist())

totals = inner.groupby("name", as_index=False)["amount"].sum().sort_values("amount", ascending=False)
totals.to_csv("totals.csv", index=False)
try:
    customers.merge(orders, on="customer_id", validate="one_to_one")
except pd.errors.MergeError as error:
    print(type(error).__name__, str(error).split(";")[0])
