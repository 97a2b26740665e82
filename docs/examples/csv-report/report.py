import csv
from collections import defaultdict
from decimal import Decimal

revenue = defaultdict(Decimal)
units = defaultdict(int)
with open("sales.csv", newline="") as file:
    for row in csv.DictReader(file):
        revenue[row["region"]] += int(row["units"]) * Decimal(row["price"])
        units[row["region"]] += int(row["units"])

print(f"{'region':<8}{'units':>6}{'revenue':>10}{'share':>7}")
total = sum(revenue.values())
with open("report.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["region", "units", "revenue"])
    for region in sorted(revenue, key=revenue.get, reverse=True):
        print(f"{region:<8}{units[region]:>6}{revenue[region]:>10}{revenue[region] / total:>7.1%}")
        writer.writerow([region, units[region], revenue[region]])
print(f"{'all':<8}{sum(units.values()):>6}{total:>10}")
