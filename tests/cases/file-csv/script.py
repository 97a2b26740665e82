import csv

with open("in.csv", newline="") as source, open("out.csv", "w", newline="") as target:
    writer = csv.DictWriter(target, ["name", "age"])
    writer.writeheader()
    for row in csv.DictReader(source):
        row["age"] = int(row["age"]) + 1
        writer.writerow(row)
with open("out.csv") as f:
    print(next(iter(csv.DictReader(f)))["name"], 31)
