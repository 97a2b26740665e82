from tabulate import tabulate

rows = [("apple", 3), ("pear", 4.5)]
print(tabulate(rows, headers=["fruit", "count"]))
print(tabulate(rows, headers=["fruit", "count"], tablefmt="github"))
print(tabulate([{"a": 1}, {"a": None}], headers="keys", tablefmt="grid", missingval="-"))
