// <define:GLOVEBOX_EXAMPLES>
var define_GLOVEBOX_EXAMPLES_default = [{ title: "Displays", language: "python", source: `# A script that displays a picture, a table and a text in addition to its printed output.
import math


class Wave:
    def _repr_svg_(self):
        points = " ".join(f"{x},{60 - 40 * math.sin(x / 24):.1f}" for x in range(0, 421, 4))
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="120" viewBox="0 0 420 120">'
            '<path d="M0 60H420" stroke="#ccc"/>'
            f'<polyline points="{points}" fill="none" stroke="#0b6e69" stroke-width="2.5"/></svg>'
        )


class Table:
    def __init__(self, rows):
        self.rows = rows

    def _repr_html_(self):
        rows = "".join(f"<tr><td>{name}</td><td align=right>{value}</td></tr>" for name, value in self.rows)
        return f'<table style="font: 14px sans-serif; border-spacing: 18px 4px"><tr><th>x</th><th>sine</th></tr>{rows}</table>'


display(Wave())
display(Table([(f"{x / 4:g} π", f"{math.sin(x * math.pi / 4):.3f}") for x in range(5)]))
print("Each of them is shown in the form that a reader can show best.")
`, files: {}, needsPackages: false }, { title: "An endless script", language: "python", source: '# An endless script: stop it, or let it run into its limit.\nimport time\n\nbegun = time.monotonic()\nfor second in range(1, 3600):\n    while time.monotonic() < begun + second / 2:\n        pass\n    print(f"\\x1b[32m{second / 2:4.1f} s\\x1b[0m", "▪" * second, flush=True)\n', files: {}, needsPackages: false }, { title: "Both languages on one workspace: clean.py", language: "python", source: 'import json\nfrom datetime import datetime\n\nreadings = []\nwith open("readings.txt") as file:\n    for number, line in enumerate(file, 1):\n        if line.startswith("#"):\n            continue\n        station, time, celsius = (part.strip() for part in line.split(";"))\n        try:\n            readings.append(\n                {"station": station, "time": datetime.fromisoformat(time).isoformat(), "celsius": float(celsius)}\n            )\n        except ValueError as error:\n            print(f"Python: line {number} is left out: {error}")\nwith open("readings.json", "w") as file:\n    json.dump(readings, file)\nprint("Python:", len(readings), "readings")\n', files: { "readings.txt": "# station; time; celsius\nharbour; 2024-03-05 06:00; 4.5\nharbour; 2024-03-05 12:00; 9.25\nsummit; 2024-03-05 06:00; -7\nsummit; 2024-03-05 12:00; n/a\nharbour; 2024-03-05 18:00; 7.0\nsummit; 2024-03-05 18:00; -4.5\n" }, needsPackages: false }, { title: "Both languages on one workspace: chart.js", language: "javascript", source: "const readings = readJson('readings.json');\nconst stations = Object.groupBy(readings, ({ station }) => station);\nfor (const [station, list] of Object.entries(stations)) {\n  const mean = list.reduce((sum, { celsius }) => sum + celsius, 0) / list.length;\n  console.log(`JavaScript: ${station.padEnd(8)} ${mean.toFixed(1).padStart(5)} °C`);\n  for (const { time, celsius } of list) console.log(`  ${time.slice(11, 16)} ${'#'.repeat(Math.round(celsius + 10))}`);\n}\nwriteText('chart.txt', Object.keys(stations).join('\\n'));\n", files: { "readings.txt": "# station; time; celsius\nharbour; 2024-03-05 06:00; 4.5\nharbour; 2024-03-05 12:00; 9.25\nsummit; 2024-03-05 06:00; -7\nsummit; 2024-03-05 12:00; n/a\nharbour; 2024-03-05 18:00; 7.0\nsummit; 2024-03-05 18:00; -4.5\n" }, needsPackages: false }, { title: "CSV report", language: "python", source: `import csv
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
`, files: { "sales.csv": 'date,region,product,units,price\n2024-03-01,North,Lamp,4,19.90\n2024-03-01,South,Lamp,11,19.90\n2024-03-02,North,Desk,1,249.00\n2024-03-02,West,Chair,6,89.50\n2024-03-04,South,Chair,2,89.50\n2024-03-05,North,Lamp,7,18.50\n2024-03-07,West,Desk,2,249.00\n2024-03-07,South,"Lamp, small",9,12.00\n' }, needsPackages: false }, { title: "Dates", language: "python", source: `from datetime import date, datetime

from dateutil import parser, tz
from dateutil.relativedelta import FR, relativedelta
from dateutil.rrule import DAILY, MONTHLY, MO, TU, WE, TH, rrule

for text in ["5 March 2024", "2024-03-05T17:30:00+01:00", "Mar 5, 2024 5:30 PM", "20240305"]:
    print(f"{text:<27}{parser.parse(text).isoformat()}")

print("month's end   ", date(2024, 1, 31) + relativedelta(months=1))
print("last Friday   ", date(2024, 3, 1) + relativedelta(day=31, weekday=FR(-1)))
age = relativedelta(date(2024, 3, 5), date(1990, 12, 10))
print("age           ", f"{age.years} years, {age.months} months, {age.days} days")
print(
    "second Tuesday",
    *(day.strftime("%d %b") for day in rrule(MONTHLY, byweekday=TU(2), dtstart=datetime(2024, 1, 1), count=4)),
)
print(
    "next workdays ",
    *(
        day.strftime("%a")
        for day in rrule(DAILY, byweekday=(MO, TU, WE, TH, FR), dtstart=datetime(2024, 3, 8), count=3)
    ),
)
meeting = datetime(2024, 3, 5, 9, 0, tzinfo=tz.tzoffset("here", 3600))
print("in UTC        ", meeting.astimezone(tz.UTC).isoformat())
`, files: {}, needsPackages: true }, { title: "Excel file", language: "python", source: 'import csv\nfrom datetime import date\n\nfrom openpyxl import Workbook, load_workbook\nfrom openpyxl.styles import Font\n\nbook = Workbook()\nsheet = book.active\nsheet.title = "Expenses"\nwith open("expenses.csv", newline="") as file:\n    rows = csv.reader(file)\n    sheet.append([name.title() for name in next(rows)])\n    for day, category, amount in rows:\n        sheet.append([date.fromisoformat(day), category, float(amount)])\nlast = sheet.max_row\nsheet.append([None, "Total", f"=SUM(C2:C{last})"])\nfor cell in sheet[1] + sheet[last + 1]:\n    cell.font = Font(bold=True)\nfor cell in sheet["C"][1:]:\n    cell.number_format = "#,##0.00"\nsheet.column_dimensions["A"].width = 12\nsheet.freeze_panes = "A2"\nbook.save("expenses.xlsx")\n\nagain = load_workbook("expenses.xlsx")["Expenses"]\nprint(again.dimensions, again.freeze_panes, again["B1"].font.bold)\nfor row in again.iter_rows(min_row=2, values_only=True):\n    print(*(value.date() if hasattr(value, "date") else value for value in row))\n', files: { "expenses.csv": "date,category,amount\n2024-01-15,Travel,412.80\n2024-01-20,Books,58.00\n2024-02-02,Travel,96.40\n2024-02-11,Hardware,1299.00\n2024-03-05,Books,24.90\n" }, needsPackages: true }, { title: "JSON reshaping", language: "javascript", source: "const orders = readJson('orders.json');\n\nconst customers = {};\nfor (const { id, customer, items } of orders) {\n  const entry = (customers[customer.name] ??= { city: customer.city ?? 'unknown', orders: [], total: 0, bySku: {} });\n  entry.orders.push(id);\n  for (const { sku, qty, price } of items) {\n    entry.total += qty * price;\n    entry.bySku[sku] = (entry.bySku[sku] ?? 0) + qty;\n  }\n}\n\nconst list = Object.entries(customers)\n  .map(([name, entry]) => ({ name, ...entry }))\n  .sort((a, b) => b.total - a.total);\nwriteJson('customers.json', list);\nconsole.log(JSON.stringify(list, null, 1).replace(/\\n {3,}/g, ' ').replace(/\\n {2}([\\]}])/g, ' $1'));\n", files: { "orders.json": '[\n  {"id": 1, "customer": {"name": "Ada", "city": "London"}, "items": [{"sku": "A1", "qty": 2, "price": 9.5}, {"sku": "B7", "qty": 1, "price": 30}]},\n  {"id": 2, "customer": {"name": "Linus", "city": "Helsinki"}, "items": [{"sku": "B7", "qty": 3, "price": 30}]},\n  {"id": 3, "customer": {"name": "Ada", "city": "London"}, "items": [], "note": "cancelled"},\n  {"id": 4, "customer": {"name": "Grace", "city": null}, "items": [{"sku": "C3", "qty": 1, "price": 120.25}]}\n]\n' }, needsPackages: false }, { title: "Log parsing", language: "python", source: `import re
from collections import Counter, defaultdict
from statistics import median

LINE = re.compile(
    r'(?P<host>\\S+) .*\\[(?P<day>[^:]+):(?P<hour>\\d\\d).*\\] "(?P<method>\\S+) (?P<path>\\S+) .*" (?P<status>\\d+) (?P<ms>\\d+)'
)

statuses, hours, times, skipped = Counter(), Counter(), defaultdict(list), 0
with open("access.log") as log:
    for line in log:
        found = LINE.match(line)
        if not found:
            skipped += 1
            continue
        statuses[found["status"]] += 1
        times[found["path"]].append(int(found["ms"]))
        if found["status"] >= "500":
            hours[f"{found['hour']}:00"] += 1

print("status ", *(f"{status}: {count}" for status, count in sorted(statuses.items())), sep="  ")
print("failed ", *(f"{hour}: {count}" for hour, count in sorted(hours.items())), sep="  ")
print(f"skipped  {skipped}")
for path in sorted(times, key=lambda path: -median(times[path])):
    print(
        f"{path:<16}{len(times[path]):>4} requests, median {median(times[path]):>3g} ms, longest {max(times[path]):>3} ms"
    )
`, files: { "access.log": '10.0.0.4 - - [05/Mar/2024:08:00:30 +0000] "POST /login HTTP/1.1" 200 9\n10.0.0.1 - - [05/Mar/2024:08:03:25 +0000] "POST /login HTTP/1.1" 200 7\n10.0.0.1 - - [05/Mar/2024:08:06:14 +0000] "GET /static/app.js HTTP/1.1" 200 54\n10.0.0.3 - - [05/Mar/2024:08:09:49 +0000] "GET /static/app.js HTTP/1.1" 304 26\n10.0.0.2 - - [05/Mar/2024:08:12:59 +0000] "POST /login HTTP/1.1" 200 19\n10.0.0.3 - - [05/Mar/2024:08:15:51 +0000] "GET / HTTP/1.1" 500 54\n10.0.0.3 - - [05/Mar/2024:08:18:18 +0000] "GET /api/orders HTTP/1.1" 200 13\n10.0.0.5 - - [05/Mar/2024:08:21:21 +0000] "GET /api/orders HTTP/1.1" 200 57\n10.0.0.2 - - [05/Mar/2024:08:24:15 +0000] "GET /api/search HTTP/1.1" 304 216\n10.0.0.5 - - [05/Mar/2024:08:27:53 +0000] "GET /api/search HTTP/1.1" 200 96\n10.0.0.5 - - [05/Mar/2024:08:30:45 +0000] "GET /api/orders HTTP/1.1" 200 21\n10.0.0.4 - - [05/Mar/2024:08:33:27 +0000] "GET /api/orders HTTP/1.1" 304 15\n10.0.0.4 - - [05/Mar/2024:08:36:10 +0000] "GET /static/app.js HTTP/1.1" 200 30\n10.0.0.1 - - [05/Mar/2024:08:39:05 +0000] "POST /login HTTP/1.1" 200 19\n10.0.0.3 - - [05/Mar/2024:08:42:33 +0000] "GET / HTTP/1.1" 200 43\n10.0.0.3 - - [05/Mar/2024:08:45:09 +0000] "GET /static/app.js HTTP/1.1" 500 33\n10.0.0.2 - - [05/Mar/2024:08:48:40 +0000] "POST /login HTTP/1.1" 200 29\n10.0.0.3 - - [05/Mar/2024:08:51:27 +0000] "GET /api/search HTTP/1.1" 200 168\n10.0.0.5 - - [05/Mar/2024:08:54:12 +0000] "GET /static/app.js HTTP/1.1" 200 43\n10.0.0.1 - - [05/Mar/2024:08:57:45 +0000] "GET /api/orders HTTP/1.1" 200 56\n10.0.0.5 - - [05/Mar/2024:09:00:39 +0000] "POST /login HTTP/1.1" 200 51\n10.0.0.2 - - [05/Mar/2024:09:03:18 +0000] "POST /login HTTP/1.1" 200 24\n10.0.0.3 - - [05/Mar/2024:09:06:44 +0000] "GET /api/search HTTP/1.1" 200 60\n10.0.0.3 - - [05/Mar/2024:09:09:01 +0000] "GET / HTTP/1.1" 200 50\n10.0.0.2 - - [05/Mar/2024:09:12:49 +0000] "GET /api/orders HTTP/1.1" 200 23\n10.0.0.1 - - [05/Mar/2024:09:15:18 +0000] "GET /api/search HTTP/1.1" 404 552\n10.0.0.3 - - [05/Mar/2024:09:18:08 +0000] "GET /static/app.js HTTP/1.1" 200 31\n10.0.0.2 - - [05/Mar/2024:09:21:21 +0000] "GET /api/orders HTTP/1.1" 200 41\n10.0.0.1 - - [05/Mar/2024:09:24:29 +0000] "GET /static/app.js HTTP/1.1" 200 26\n10.0.0.3 - - [05/Mar/2024:09:27:18 +0000] "POST /login HTTP/1.1" 200 53\n10.0.0.2 - - [05/Mar/2024:09:30:27 +0000] "GET /static/app.js HTTP/1.1" 200 31\n-- log rotated --\n10.0.0.1 - - [05/Mar/2024:09:33:03 +0000] "POST /login HTTP/1.1" 200 6\n10.0.0.2 - - [05/Mar/2024:09:36:38 +0000] "POST /login HTTP/1.1" 404 46\n10.0.0.5 - - [05/Mar/2024:09:39:15 +0000] "GET / HTTP/1.1" 304 34\n10.0.0.5 - - [05/Mar/2024:09:42:18 +0000] "GET /api/orders HTTP/1.1" 200 10\n10.0.0.4 - - [05/Mar/2024:09:45:12 +0000] "GET /api/search HTTP/1.1" 500 180\n10.0.0.4 - - [05/Mar/2024:09:48:02 +0000] "POST /login HTTP/1.1" 200 29\n10.0.0.2 - - [05/Mar/2024:09:51:41 +0000] "POST /login HTTP/1.1" 200 31\n10.0.0.2 - - [05/Mar/2024:09:54:02 +0000] "GET /api/search HTTP/1.1" 200 408\n10.0.0.2 - - [05/Mar/2024:09:57:33 +0000] "GET / HTTP/1.1" 200 19\n10.0.0.3 - - [05/Mar/2024:10:00:09 +0000] "POST /login HTTP/1.1" 200 29\n10.0.0.5 - - [05/Mar/2024:10:03:07 +0000] "GET /api/orders HTTP/1.1" 200 23\n10.0.0.1 - - [05/Mar/2024:10:06:31 +0000] "GET /static/app.js HTTP/1.1" 200 44\n10.0.0.2 - - [05/Mar/2024:10:09:59 +0000] "GET /api/search HTTP/1.1" 200 360\n10.0.0.3 - - [05/Mar/2024:10:12:42 +0000] "GET /static/app.js HTTP/1.1" 200 24\n10.0.0.4 - - [05/Mar/2024:10:15:33 +0000] "GET /api/search HTTP/1.1" 500 276\n10.0.0.3 - - [05/Mar/2024:10:18:21 +0000] "POST /login HTTP/1.1" 500 54\n10.0.0.3 - - [05/Mar/2024:10:21:40 +0000] "GET /api/search HTTP/1.1" 200 84\n10.0.0.5 - - [05/Mar/2024:10:24:08 +0000] "POST /login HTTP/1.1" 200 28\n10.0.0.1 - - [05/Mar/2024:10:27:55 +0000] "GET /api/orders HTTP/1.1" 500 57\n10.0.0.5 - - [05/Mar/2024:10:30:30 +0000] "POST /login HTTP/1.1" 500 32\n10.0.0.1 - - [05/Mar/2024:10:33:13 +0000] "GET /api/search HTTP/1.1" 200 192\n10.0.0.3 - - [05/Mar/2024:10:36:07 +0000] "POST /login HTTP/1.1" 200 42\n10.0.0.2 - - [05/Mar/2024:10:39:35 +0000] "GET /api/search HTTP/1.1" 200 708\n10.0.0.5 - - [05/Mar/2024:10:42:21 +0000] "GET / HTTP/1.1" 200 13\n10.0.0.4 - - [05/Mar/2024:10:45:01 +0000] "GET /static/app.js HTTP/1.1" 200 36\n10.0.0.5 - - [05/Mar/2024:10:48:07 +0000] "GET / HTTP/1.1" 200 47\n10.0.0.3 - - [05/Mar/2024:10:51:38 +0000] "GET /api/search HTTP/1.1" 304 696\n10.0.0.1 - - [05/Mar/2024:10:54:49 +0000] "POST /login HTTP/1.1" 200 26\n10.0.0.3 - - [05/Mar/2024:10:57:52 +0000] "GET /static/app.js HTTP/1.1" 200 22\n' }, needsPackages: false }, { title: "Markdown to HTML", language: "python", source: `import markdown

with open("notes.md", encoding="utf-8") as file:
    body = markdown.markdown(file.read(), extensions=["tables", "fenced_code"])
with open("notes.html", "w", encoding="utf-8") as file:
    file.write(f'<!doctype html>\\n<meta charset="utf-8">\\n<title>Notes</title>\\n{body}\\n')
print(body)
`, files: { "notes.md": '# Release notes\n\nThe *second* version **reads** what the first one wrote.\n\n* `export` writes UTF-8\n* links: [home](https://example.com/?a=1&b=2)\n\n| step | minutes |\n|------|--------:|\n| stop | 1 |\n| copy | 12 |\n\n```python\nprint("<done>")\n```\n' }, needsPackages: true }, { title: "Matrix", language: "python", source: 'from fractions import Fraction\n\n\ndef solve(matrix, columns):\n    """Returns the solution X of `matrix` X = `columns`, by Gaussian elimination, and the determinant."""\n    n = len(matrix)\n    rows = [[Fraction(x) for x in (*left, *right)] for left, right in zip(matrix, columns)]\n    determinant = Fraction(1)\n    for i in range(n):\n        pivot = next((k for k in range(i, n) if rows[k][i]), None)\n        if pivot is None:\n            raise ArithmeticError("the matrix is singular")\n        if pivot != i:\n            rows[i], rows[pivot] = rows[pivot], rows[i]\n            determinant = -determinant\n        determinant *= rows[i][i]\n        rows[i] = [x / rows[i][i] for x in rows[i]]\n        for k in range(n):\n            if k != i and rows[k][i]:\n                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i])]\n    return [row[n:] for row in rows], determinant\n\n\ndef multiply(a, b):\n    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]\n\n\ndef show(name, matrix):\n    print(f"{name} =")\n    for row in matrix:\n        print("  ", *(f"{str(x):>6}" for x in row))\n\n\na = [[2, 1, -1], [-3, -1, 2], [-2, 1, 2]]\nunit = [[int(i == k) for k in range(3)] for i in range(3)]\ninverse, determinant = solve(a, unit)\nshow("inverse", inverse)\nprint("determinant =", determinant)\nprint("solution =", *(x for [x] in solve(a, [[8], [-11], [-3]])[0]))\nprint("a times its inverse is the unit matrix:", multiply(a, inverse) == unit)\n\npower = unit\nfor _ in range(20):\n    power = multiply(power, [[1, 1, 0], [1, 0, 0], [0, 0, 1]])\nprint("Fibonacci:", power[0][1])\ntry:\n    solve([[1, 2], [2, 4]], [[0], [0]])\nexcept ArithmeticError as error:\n    print("error:", error)\n', files: {}, needsPackages: false }, { title: "Simulation", language: "python", source: '"""Customers come at random, and are served by one or more tills: how long do they wait?"""\n\nimport heapq\nimport random\nfrom statistics import mean, quantiles\n\n\ndef simulate(tills, customers=2000, between=1.0, service=1.8):\n    free = [0.0] * tills  # when each till is free again\n    now, waits = 0.0, []\n    for _ in range(customers):\n        now += random.expovariate(1 / between)\n        start = max(now, heapq.heappop(free))\n        waits.append(start - now)\n        heapq.heappush(free, start + random.expovariate(1 / service))\n    return waits\n\n\nfor tills in (2, 3, 4):\n    waits = simulate(tills)\n    print(f"{tills} tills: mean {mean(waits):5.2f} min, 95 % wait less than {quantiles(waits, n=20)[-1]:5.2f} min")\ninside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(20_000))\nprint(f"pi is about {4 * inside / 20_000:.3f}")\n', files: {}, needsPackages: false }, { title: "SQLite", language: "python", source: `import csv
import sqlite3

database = sqlite3.connect("library.db")
database.executescript("""
    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE book (title TEXT, year INTEGER, copies INTEGER CHECK (copies >= 0), author REFERENCES author);
""")
with open("books.csv", newline="") as file, database:
    for row in csv.DictReader(file):
        database.execute("INSERT OR IGNORE INTO author (name) VALUES (?)", [row["author"]])
        database.execute(
            "INSERT INTO book SELECT ?, ?, ?, id FROM author WHERE name = ?",
            [row["title"], row["year"], row["copies"], row["author"]],
        )

query = """
    SELECT name, count(*), sum(copies), group_concat(title, ' / ')
    FROM (SELECT * FROM book ORDER BY year) AS book JOIN author ON author.id = book.author
    GROUP BY name ORDER BY sum(copies) DESC
"""
for name, titles, copies, list_of_titles in database.execute(query):
    print(f"{name}: {copies} copies of {titles} titles: {list_of_titles}")
try:
    with database:
        database.execute("UPDATE book SET copies = copies - 2")
except sqlite3.IntegrityError as error:
    print("rolled back:", error)
print(database.execute("SELECT sum(copies) FROM book").fetchone()[0], "copies")
database.close()
`, files: { "books.csv": "title,author,year,copies\nMiddlemarch,George Eliot,1871,3\nSilas Marner,George Eliot,1861,1\nEmma,Jane Austen,1815,2\nPersuasion,Jane Austen,1817,4\nWalden,Henry Thoreau,1854,0\n" }, needsPackages: false }, { title: "Text search", language: "python", source: `from sandbox_utils import find, grep, group_by, sort_by, tree, wc

print(tree("chapters"))
files = find("*.txt", "chapters")
for file, number, line in grep(r"\\b(age|times)\\b", files, ignore_case=True):
    print(f"{file}:{number}: {line}")
todo = group_by(grep("TODO", files), lambda match: match[0])
print({file: len(matches) for file, matches in todo.items()})
for file in sort_by(files, lambda file: wc(file)["words"], reverse=True):
    print(f"{wc(file)['words']:>4} words in {file.name}")
`, files: { "chapters/drafts/three.txt": "TODO the age of the narrator\nTODO: times and places\n", "chapters/one.txt": "It was the best of times,\nit was the worst of times,\nit was the age of wisdom.\n", "chapters/two.txt": "Call me Ishmael.\nSome years ago, never mind how long.\n" }, needsPackages: true }, { title: "TypeScript", language: "typescript", source: "interface Item {\n  readonly sku: string;\n  name: string;\n  count: number;\n  reorder?: { at: number; amount: number };\n}\n\ntype Level = 'out' | 'low' | 'fine';\n\ndeclare function readJson<T>(file: string): T;\n\nfunction level({ count, reorder }: Item): Level {\n  if (count === 0) return 'out';\n  return count < (reorder?.at ?? 0) ? 'low' : 'fine';\n}\n\nclass Register<K, V> {\n  private readonly groups: Map<K, V[]> = new Map();\n\n  add(key: K, value: V): this {\n    const group = this.groups.get(key);\n    if (group) group.push(value);\n    else this.groups.set(key, [value]);\n    return this;\n  }\n\n  *[Symbol.iterator](): Generator<[K, V[]]> {\n    yield* this.groups;\n  }\n}\n\nconst register = new Register<Level, Item>();\nfor (const item of readJson<Item[]>('stock.json')) register.add(level(item), item);\n\nfor (const [key, items] of register) {\n  console.log(key.padEnd(5), items.map((item) => `${item.name} (${item.count})`).join(', '));\n}\nconst orders = [...register]\n  .flatMap(([, items]) => items)\n  .filter((item) => level(item) !== 'fine')\n  .map(({ sku, reorder }) => ({ sku, amount: reorder!.amount })) satisfies { sku: string; amount: number }[];\nconsole.log(orders);\n", files: { "stock.json": '[\n  { "sku": "A1", "name": "Lamp", "count": 4, "reorder": { "at": 5, "amount": 20 } },\n  { "sku": "B7", "name": "Desk", "count": 9 },\n  { "sku": "C3", "name": "Chair", "count": 0, "reorder": { "at": 2, "amount": 6 } }\n]\n' }, needsPackages: false }];

// src/backend/problem.ts
var Problem = class extends Error {
  kind;
  /** The heading above the message. */
  title;
  /** Seconds to wait before the next attempt. */
  retryAfter;
  constructor(kind, title, message, retryAfter) {
    super(message);
    this.name = "Problem";
    this.kind = kind;
    this.title = title;
    this.retryAfter = retryAfter;
  }
};
function sentence({ message, retryAfter }) {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  const again = retryAfter === void 0 || /try again in/i.test(text) ? "" : ` Try again in ${retryAfter} s.`;
  return `${text}${/[.!?]$/.test(text) ? "" : "."}${again}`;
}
function problemOf(error) {
  if (error instanceof Problem) return error;
  if (error instanceof DOMException && error.name === "AbortError") return new Problem("cancelled", "Stopped", "The script was stopped.");
  return new Problem("refused", "Request failed", error instanceof Error ? error.message : String(error));
}

// src/examples.ts
var EXAMPLES = define_GLOVEBOX_EXAMPLES_default;

// src/ui/dom.ts
function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on" || value === false || value === void 0) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [event, listener] of Object.entries(props.on ?? {})) element.addEventListener(event, listener);
  element.append(...children.filter((child) => child !== false && child !== null && child !== void 0));
  return element;
}
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no \`#${id}\``);
  return found;
}
function download(name, bytes2) {
  const url = URL.createObjectURL(new Blob([bytes2], { type: "application/octet-stream" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 6e4);
}
var isMac = /Mac|iPhone|iPad/.test(navigator.platform);

// src/ui/editor.ts
import {
  Compartment,
  EditorState,
  EditorView,
  HighlightStyle,
  bracketMatching,
  defaultKeymap,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  history as history2,
  historyKeymap,
  indentOnInput,
  indentUnit,
  indentWithTab,
  javascriptLanguage,
  keymap,
  lineNumbers,
  pythonLanguage,
  syntaxHighlighting,
  tags,
  typescriptLanguage
} from "./codemirror.js";
var theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "transparent", fontSize: "var(--code-size)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { padding: "14px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 16px 0 10px" },
  ".cm-gutters": { color: "var(--faint)", backgroundColor: "transparent", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 16px", minWidth: "26px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line-tint)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--rule-strong)" }
});
var highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--syn-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--syn-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--syn-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--syn-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.function(tags.variableName))], color: "var(--syn-function)" },
  { tag: [tags.className, tags.typeName, tags.namespace], color: "var(--syn-type)" }
]);
var LANGUAGES = { python: pythonLanguage, javascript: javascriptLanguage, typescript: typescriptLanguage };
function languageOf(language) {
  return [LANGUAGES[language], indentUnit.of(language === "python" ? "    " : "  ")];
}
function typeOver(event, view) {
  if (event.inputType !== "insertText" || event.data === null || view.composing || view.state.selection.main.empty) return false;
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  event.preventDefault();
  return true;
}
var Editor = class {
  #view;
  #language = new Compartment();
  constructor(parent, onRun, onChange) {
    const root = parent.attachShadow({ mode: "open", delegatesFocus: true });
    const host = document.createElement("div");
    root.append(host);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(":host { display: block; } div:first-of-type { height: 100%; }");
    root.adoptedStyleSheets = [sheet];
    const run = { key: "Mod-Enter", preventDefault: true, run: () => (onRun(), true) };
    this.#view = new EditorView({
      root,
      parent: host,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          history2(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          syntaxHighlighting(highlighting),
          theme,
          // These bindings precede the defaults, which use the same keys to insert a line. Escape and then Tab leaves
          // the editor.
          keymap.of([run, indentWithTab, ...defaultKeymap, ...historyKeymap]),
          this.#language.of(languageOf("python")),
          EditorView.contentAttributes.of({ "aria-label": "Script", "aria-describedby": "hint", spellcheck: "false", tabindex: "0" }),
          EditorView.domEventHandlers({ beforeinput: typeOver }),
          EditorView.updateListener.of(({ docChanged }) => docChanged && onChange())
        ]
      })
    });
  }
  get text() {
    return this.#view.state.doc.toString();
  }
  set text(text) {
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
  }
  set language(language) {
    this.#view.dispatch({ effects: this.#language.reconfigure(languageOf(language)) });
  }
  focus() {
    this.#view.focus();
  }
};

// src/ui/format.ts
var SCALE = ["", "k", "M", "G", "T", "P", "E"];
function count(number) {
  let [value, at] = [number, 0];
  while (value >= 999.5 && at < SCALE.length - 1) [value, at] = [value / 1e3, at + 1];
  return `${at === 0 ? value : short(value)}${at === 0 ? "" : ` ${SCALE[at]}`}`;
}
function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, at] = [number, 0];
  while (value >= 1023.5 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at === 0 ? value : short(value)} ${units[at]}`;
}
function duration(ms) {
  if (ms < 1e3) return `${short(ms)} ms`;
  if (ms < 12e4) return `${short(ms / 1e3)} s`;
  return `${Math.round(ms / 6e4)} min`;
}
function short(value) {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}
function plural(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// src/ui/files.ts
var MAX_LISTED = 500;
var HIDDEN = /[\p{Cc}\p{Cf}]/gu;
var Files = class {
  #backend;
  #list = byId("file-list");
  #failed;
  #session;
  #shown = 0;
  /** The files for new interpreters. */
  own = /* @__PURE__ */ new Map();
  constructor(backend2, failed) {
    this.#backend = backend2;
    this.#failed = failed;
    const input = byId("upload");
    byId("upload-button").addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      void this.#upload([...input.files ?? []]);
      input.value = "";
    });
    const panel = byId("files");
    panel.addEventListener("dragover", (event) => {
      event.preventDefault();
      panel.dataset["over"] = "";
    });
    panel.addEventListener("dragleave", () => delete panel.dataset["over"]);
    panel.addEventListener("drop", (event) => {
      event.preventDefault();
      delete panel.dataset["over"];
      void this.#upload([...event.dataTransfer?.files ?? []]);
    });
  }
  /** Replaces the page's own files with the files that a run left. */
  take(files) {
    this.own.clear();
    for (const [path, contents] of files) this.own.set(path, contents);
  }
  /** Shows the files of a session, or the page's own files. */
  async show(session) {
    this.#session = session;
    this.#shown += 1;
    const asked = this.#shown;
    const files = session === void 0 ? this.#ownList() : await this.#backend.files(session);
    if (asked === this.#shown) this.#draw(files);
  }
  #ownList() {
    return [...this.own].map(([path, { length }]) => ({ path, sizeBytes: length }));
  }
  #draw(files) {
    const sorted = [...files].sort((a, b) => a.path < b.path ? -1 : 1);
    const rows = sorted.slice(0, MAX_LISTED).map((file) => this.#row(file));
    if (files.length > MAX_LISTED) rows.push(h("li", { class: "note" }, `and ${(files.length - MAX_LISTED).toLocaleString("en")} more`));
    const empty = h("li", { class: "placeholder" }, "No files. Upload some, or drop them here.");
    this.#list.replaceChildren(...rows.length > 0 ? rows : [empty]);
  }
  #row({ path, sizeBytes }) {
    const name = path.replace(HIDDEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
    const last = (path.split("/").at(-1) ?? "").replace(HIDDEN, "_");
    const save = () => this.#guarded(async () => download(last, Uint8Array.from(await this.#read(path))));
    const remove = () => this.#guarded(async () => {
      if (this.#session === void 0) this.own.delete(path);
      else await this.#backend.deleteFile(this.#session, path);
      await this.show(this.#session);
      byId("upload-button").focus();
    });
    return h(
      "li",
      {},
      h("button", { type: "button", class: "file", title: `Download ${name}`, on: { click: save } }, h("span", { class: "path" }, name), h("span", { class: "detail" }, bytes(sizeBytes))),
      h("button", { type: "button", class: "icon", "aria-label": `Delete ${name}`, title: "Delete", on: { click: remove } }, "×")
    );
  }
  async #read(path) {
    if (this.#session !== void 0) return this.#backend.readFile(this.#session, path);
    return this.own.get(path) ?? new Uint8Array();
  }
  async #upload(files) {
    const session = this.#session;
    await this.#guarded(async () => {
      for (const file of files) {
        const contents = new Uint8Array(await file.arrayBuffer());
        if (session === void 0) this.own.set(file.name, contents);
        else await this.#backend.writeFile(session, file.name, contents);
      }
      await this.show(session);
    });
  }
  async #guarded(work) {
    try {
      await work();
    } catch (error) {
      this.#failed(error);
    }
  }
};

// src/ui/ansi.ts
var COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
var MAX_SEQUENCE_CHARS = 256;
var SEQUENCE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_a-z0-9=>])/y;
var CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
var Ansi = class {
  #rest = "";
  #foreground;
  #isBold = false;
  #isDim = false;
  #isItalic = false;
  #isUnderlined = false;
  /** Parses the next piece. */
  next(piece) {
    const text = this.#rest + piece;
    this.#rest = "";
    const runs = [];
    let from = 0;
    while (from < text.length) {
      const at = text.indexOf("\x1B", from);
      this.#push(runs, text.slice(from, at === -1 ? text.length : at));
      if (at === -1) break;
      SEQUENCE.lastIndex = at;
      const found = SEQUENCE.exec(text);
      if (found) {
        if (found[2] === "m") this.#style(found[1] ?? "");
        from = SEQUENCE.lastIndex;
      } else if (text.length - at < MAX_SEQUENCE_CHARS && !text.slice(at).includes("\n")) {
        this.#rest = text.slice(at);
        break;
      } else {
        from = at + 1;
      }
    }
    return runs;
  }
  #push(runs, text) {
    const shown = text.replace(/\r\n?/g, "\n").replace(CONTROLS, "");
    if (shown === "") return;
    const classes = [
      this.#foreground && `ansi-${this.#foreground}`,
      this.#isBold && "ansi-bold",
      this.#isDim && "ansi-dim",
      this.#isItalic && "ansi-italic",
      this.#isUnderlined && "ansi-underline"
    ];
    runs.push({ text: shown, classes: classes.filter(Boolean).join(" ") });
  }
  #style(parameters) {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at] ?? 0;
      if (code === 0) {
        this.#foreground = void 0;
        this.#isBold = this.#isDim = this.#isItalic = this.#isUnderlined = false;
      } else if (code === 1) this.#isBold = true;
      else if (code === 2) this.#isDim = true;
      else if (code === 3) this.#isItalic = true;
      else if (code === 4) this.#isUnderlined = true;
      else if (code === 22) this.#isBold = this.#isDim = false;
      else if (code === 23) this.#isItalic = false;
      else if (code === 24) this.#isUnderlined = false;
      else if (code >= 30 && code <= 37) this.#foreground = COLOURS[code - 30];
      else if (code >= 90 && code <= 97) this.#foreground = COLOURS[code - 90];
      else if (code === 39) this.#foreground = void 0;
      else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
    }
  }
};

// src/backend/base64.ts
function toBase64(bytes2) {
  let text = "";
  for (let at = 0; at < bytes2.length; at += 32768) text += String.fromCharCode(...bytes2.subarray(at, at + 32768));
  return btoa(text);
}
function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// src/ui/displays.ts
var PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];
var MAX_TEXT_CHARS = 1e5;
var STYLE = "<style>body{font:14px/1.5 system-ui,sans-serif;margin:10px 12px;color:#22252a;background:#fff}table{border-collapse:collapse}th,td{padding:3px 10px;text-align:right}thead th{border-bottom:1px solid #c9c3b6}</style>";
function displayOf(data, made) {
  const text = typeof data["text/plain"] === "string" ? data["text/plain"] : "";
  const picture = PICTURES.find((type2) => typeof data[type2] === "string");
  if (picture !== void 0) return figure(pictureOf(picture, data[picture] ?? "", text, made), picture);
  if (typeof data["text/html"] === "string") return figure(frameOf(data["text/html"]), "text/html");
  const type = ["text/markdown", "application/json", "text/plain"].find((each) => typeof data[each] === "string") ?? Object.keys(data)[0] ?? "";
  const shown = data[type] ?? "";
  const isText = type.startsWith("text/") || type.endsWith("json");
  return figure(h("pre", {}, isText ? shown.slice(0, MAX_TEXT_CHARS) : `(${type})`), type);
}
function figure(content, type) {
  return h("figure", { class: "display", "data-type": type }, content);
}
function pictureOf(type, data, text, made) {
  const alt = text === "" ? "A picture that the script shows" : text.slice(0, 300);
  let bytes2 = data;
  try {
    if (type !== "image/svg+xml") bytes2 = fromBase64(data);
  } catch {
    return h("p", { class: "note" }, `The script shows ${type}, but it is damaged.`);
  }
  const url = URL.createObjectURL(new Blob([bytes2], { type }));
  made(url);
  const image = h("img", { alt, src: url, decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(h("p", { class: "note" }, `The script shows ${type}, but it is damaged.`)));
  return image;
}
function frameOf(html) {
  const outer = h("iframe", { class: "html", src: new URL("frame.html", import.meta.url).href, title: "HTML that the script shows" });
  outer.dataset["lines"] = String(linesOf(html));
  outer.addEventListener("load", () => {
    const inside = outer.contentDocument;
    if (!inside || inside.querySelector("iframe")) return;
    const inner = inside.createElement("iframe");
    inner.setAttribute("sandbox", "");
    inner.title = outer.title;
    inner.srcdoc = `<!doctype html>${STYLE}${html}`;
    inside.body.append(inner);
  });
  outer.style.height = `${Math.min(480, Math.max(96, 40 + 27 * linesOf(html)))}px`;
  return outer;
}
function linesOf(html) {
  return html.slice(0, 2e5).match(/<(tr|p|div|li|h[1-6]|br)\b/gi)?.length ?? 1;
}

// src/ui/output.ts
var MAX_CHARS = 3e5;
var MAX_DISPLAYS = 200;
var Output = class {
  #root;
  #status;
  #text = h("pre");
  #ansi = { stdout: new Ansi(), stderr: new Ansi() };
  #streamed = { stdout: "", stderr: "" };
  #waiting = [];
  #frame = 0;
  #shownChars = 0;
  #hiddenChars = 0;
  #urls = [];
  /** Creates the panel. Screen readers announce changes of `status`. */
  constructor(root, status) {
    this.#root = root;
    this.#status = status;
    this.#root.append(h("p", { class: "placeholder" }, "Output and displays of the script appear here."));
  }
  /** Clears the panel for the next run. */
  begin(note) {
    for (const url of this.#urls) URL.revokeObjectURL(url);
    cancelAnimationFrame(this.#frame);
    this.#urls = [];
    this.#waiting = [];
    this.#frame = this.#shownChars = this.#hiddenChars = 0;
    this.#ansi = { stdout: new Ansi(), stderr: new Ansi() };
    this.#streamed = { stdout: "", stderr: "" };
    this.#text = h("pre", { class: "text" });
    this.#root.replaceChildren(this.#text);
    this.#say("running", note);
  }
  /** Shows a piece of output, together with all pieces that arrive before the next frame. */
  add(piece) {
    this.#streamed[piece.stream] += piece.text;
    this.#waiting.push(piece);
    this.#frame ||= requestAnimationFrame(() => this.#flush());
  }
  #flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const isAtEnd = this.#root.scrollHeight - this.#root.scrollTop - this.#root.clientHeight < 40;
    for (const { stream, text } of this.#waiting) {
      const left = Math.max(0, MAX_CHARS - this.#shownChars);
      this.#shownChars += Math.min(left, text.length);
      this.#hiddenChars += Math.max(0, text.length - left);
      for (const { text: part, classes } of this.#ansi[stream].next(text.slice(0, left))) {
        const all = [stream === "stderr" && "stderr", classes].filter(Boolean).join(" ");
        this.#text.append(all === "" ? part : h("span", { class: all }, part));
      }
    }
    this.#waiting = [];
    if (isAtEnd) this.#root.scrollTop = this.#root.scrollHeight;
  }
  /** Shows the outcome of a run, its remaining output, its displays and its files. */
  end({ execution, filesLeftOut }) {
    const { stdout, stderr } = execution;
    if (stdout !== this.#streamed.stdout || stderr !== this.#streamed.stderr) this.#again(execution);
    this.#flush();
    if (this.#hiddenChars > 0) {
      const all = () => download("output.txt", stdout + stderr);
      const text = `${plural(this.#hiddenChars, "further character")} not shown. `;
      this.#note(text, h("button", { type: "button", class: "link", on: { click: all } }, "Download the whole output"));
    }
    const truncated = ["stdout", "stderr"].filter((name) => execution[`${name}_truncated`]);
    if (truncated.length > 0) this.#note(`The script wrote more to ${truncated.join(" and ")} than its limit; the rest was dropped.`);
    for (const display of execution.displays.slice(0, MAX_DISPLAYS)) this.#root.append(displayOf(display.data, (url) => this.#urls.push(url)));
    const notShown = execution.displays_dropped + Math.max(0, execution.displays.length - MAX_DISPLAYS);
    if (notShown > 0) this.#note(`${plural(notShown, "display")} not shown: the limit was reached.`);
    if (execution.value && !execution.displays.some((display) => display.is_result)) {
      this.#root.append(h("pre", { class: "value", "aria-label": "Value of the last expression" }, cut(execution.value.repr)));
    }
    const lost2 = execution.rolled_back_to?.executions_lost ?? 0;
    if (execution.rolled_back_to) this.#note(lost2 > 0 ? `The session was rolled back; ${plural(lost2, "earlier run")} lost.` : "The session was rolled back to its state before this run.");
    if (filesLeftOut > 0) this.#note(`${plural(filesLeftOut, "file")} not returned: the files exceed 32 MiB in total.`);
    this.#advise(execution);
    if (this.#root.textContent === "" && execution.displays.length === 0) this.#note("The script wrote nothing.");
    this.#say(execution.success ? "success" : "failure", outcomeText(execution));
  }
  /** Shows the problem that prevented a run. */
  fail(problem) {
    this.#flush();
    const isStop = problem.kind === "cancelled";
    if (!isStop) {
      this.#root.append(h("div", { class: "problem", role: "alert" }, h("strong", {}, problem.title), h("p", {}, cut(sentence(problem)))));
    }
    this.#say(isStop ? "stopped" : "failure", isStop ? "Stopped" : problem.title);
  }
  /** Shows the output of the result, which is more complete than the streamed output. */
  #again({ stdout, stderr }) {
    this.#waiting = [];
    this.#shownChars = this.#hiddenChars = 0;
    this.#ansi = { stdout: new Ansi(), stderr: new Ansi() };
    this.#text.replaceChildren();
    if (stdout !== "") this.add({ stream: "stdout", text: stdout });
    if (stderr !== "") this.add({ stream: "stderr", text: stderr });
  }
  #advise({ guidance }) {
    for (const each of guidance?.advice ?? []) {
      const [problem, solution] = [each["problem"], each["solution"]];
      if (typeof problem !== "string" || typeof solution !== "string") continue;
      this.#root.append(h("div", { class: "advice" }, h("strong", {}, cut(problem)), h("p", {}, cut(solution))));
    }
  }
  #note(...parts) {
    this.#root.append(h("p", { class: "note" }, ...parts));
  }
  #say(state, text) {
    this.#status.dataset["state"] = state;
    this.#status.textContent = text;
  }
};
function cut(text) {
  return text.length > 2e4 ? `${text.slice(0, 2e4)} …` : text;
}
var RESOURCES = { fuel: "fuel", time: "time", "wall-clock": "time", memory: "memory" };
function outcomeText({ outcome }) {
  switch (outcome.kind) {
    case "completed":
      return "Completed";
    case "exited":
      return `Exited with ${String(outcome["code"])}`;
    case "raised":
      return cutShort(String(outcome["type"] || "An exception"));
    case "exhausted": {
      const [resource, limit] = [String(outcome["resource"]), Number(outcome["limit"])];
      const name = RESOURCES[resource] ?? resource;
      const amount = name === "time" ? duration(limit) : name === "memory" ? bytes(limit) : limit.toLocaleString("en");
      return `Out of ${name}: the limit is ${amount}`;
    }
    case "cancelled":
      return "Stopped";
    case "trapped":
      return `Trapped: ${cutShort(String(outcome["trap"]))}`;
    default:
      return cutShort(outcome.kind);
  }
}
function cutShort(text) {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

// src/ui/regions.ts
function installKeys(regions, { run, stop }) {
  const help = byId("help");
  for (const element of document.querySelectorAll("[data-key-mod]")) element.textContent = isMac ? "⌘" : "Ctrl";
  byId("help-button").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const isMod = isMac ? event.metaKey : event.ctrlKey;
    const target = event.composedPath()[0];
    const isTyping = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
    if (event.key === "F6") {
      const at = regions.findIndex(([region]) => region.contains(document.activeElement));
      const step = event.shiftKey ? -1 : 1;
      const from = at === -1 && event.shiftKey ? 0 : at;
      regions[(from + step + regions.length) % regions.length]?.[1]();
    } else if (isMod && event.key === "Enter") run();
    else if (isMod && event.key === ".") stop();
    else if (event.key === "?" && !isTyping) help.showModal();
    else return;
    event.preventDefault();
  });
}

// src/lineage.ts
var MAX_NAME_CHARS = 64;
function branches(sessions) {
  const all = new Map(sessions.map((session) => [session.id, { session, forks: [] }]));
  const roots = [];
  for (const [id, branch] of all) (parentOf(id, all)?.forks ?? roots).push(branch);
  const order = (list) => {
    list.sort((a, b) => a.session.id.localeCompare(b.session.id, "en", { numeric: true }));
    for (const { forks } of list) order(forks);
    return list;
  };
  return order(roots);
}
function parentOf(id, all) {
  for (let name = id; ; ) {
    const [, up] = /^(.+)\.\d+$/.exec(name) ?? [];
    if (up === void 0) return void 0;
    const found = all.get(up);
    if (found) return found;
    name = up;
  }
}
function forkName(of, taken) {
  return unused(of.length > MAX_NAME_CHARS - 8 ? "fork" : of, ".", taken);
}
function newName(language, taken) {
  return unused(language, "-", taken);
}
function unused(stem, joint, taken) {
  for (let number = 1; ; number += 1) {
    const name = `${stem}${joint}${number}`;
    if (!taken.has(name)) return name;
  }
}

// src/ui/tree.ts
var Tree = class {
  #root;
  #choose;
  #keys;
  #collapsed = /* @__PURE__ */ new Set();
  #nodes = [];
  #current = "";
  #row = /* @__PURE__ */ new Map();
  /** `keys` handles the keys that the tree itself does not use. It returns `true` if it has handled the key. */
  constructor(root, choose, keys) {
    this.#root = root;
    this.#choose = choose;
    this.#keys = keys;
    root.addEventListener("keydown", (event) => this.#pressed(event));
    root.addEventListener("click", (event) => this.#clicked(event));
  }
  /** Replaces the nodes of the tree. */
  show(nodes) {
    this.#nodes = nodes;
    this.#draw();
  }
  focus() {
    this.#row.get(this.#current)?.element.focus();
  }
  #draw() {
    const had = this.#root.contains(document.activeElement);
    this.#row.clear();
    this.#root.replaceChildren(...this.#nodes.map((node) => this.#item(node, 1, void 0)));
    const selected = [...this.#row.values()].find(({ node }) => node.isSelected)?.node.key;
    if (!this.#row.has(this.#current)) this.#current = selected ?? this.#nodes[0]?.key ?? "";
    this.#row.get(this.#current)?.element.setAttribute("tabindex", "0");
    if (had) this.focus();
  }
  #item(node, level, parent) {
    const isExpanded = !this.#collapsed.has(node.key);
    const element = h(
      "li",
      {
        role: "treeitem",
        tabindex: -1,
        "aria-level": level,
        "aria-selected": node.isSelected ? "true" : "false",
        "aria-expanded": node.children.length > 0 ? String(isExpanded) : void 0,
        "data-key": node.key,
        "data-kind": node.kind
      },
      h(
        "span",
        { class: "row" },
        h("span", { class: node.children.length > 0 ? "twist" : "twist none", "aria-hidden": "true" }),
        h("span", { class: "label" }, node.label),
        h("span", { class: "detail" }, node.detail)
      )
    );
    this.#row.set(node.key, { element, node, parent });
    if (node.children.length > 0 && isExpanded) {
      element.append(h("ul", { role: "group" }, ...node.children.map((child) => this.#item(child, level + 1, node.key))));
    }
    return element;
  }
  #clicked(event) {
    const target = event.target;
    const key = target.closest("[role=treeitem]")?.dataset["key"];
    const row = key === void 0 ? void 0 : this.#row.get(key);
    if (!row) return;
    this.#move(row.node.key);
    if (target.classList.contains("twist") && row.node.children.length > 0) this.#fold(row.node.key, !this.#collapsed.has(row.node.key));
    else this.#choose(row.node);
  }
  #pressed(event) {
    const row = this.#row.get(this.#current);
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node, parent } = row;
    const visible = [...this.#root.querySelectorAll("[role=treeitem]")].map((element) => element.dataset["key"] ?? "");
    const at = visible.indexOf(this.#current);
    const isOpen = node.children.length > 0 && !this.#collapsed.has(node.key);
    switch (event.key) {
      case "ArrowDown":
        this.#move(visible[at + 1]);
        break;
      case "ArrowUp":
        this.#move(visible[at - 1]);
        break;
      case "Home":
        this.#move(visible[0]);
        break;
      case "End":
        this.#move(visible.at(-1));
        break;
      case "ArrowRight":
        if (isOpen) this.#move(node.children[0]?.key);
        else this.#fold(node.key, false);
        break;
      case "ArrowLeft":
        if (isOpen) this.#fold(node.key, true);
        else this.#move(parent);
        break;
      case "Enter":
      case " ":
        this.#choose(node);
        break;
      default:
        if (!this.#keys(event.key, node)) return;
    }
    event.preventDefault();
  }
  #move(key) {
    if (key === void 0 || !this.#row.has(key)) return;
    this.#row.get(this.#current)?.element.setAttribute("tabindex", "-1");
    this.#current = key;
    const element = this.#row.get(key)?.element;
    element?.setAttribute("tabindex", "0");
    element?.focus();
  }
  #fold(key, isCollapsed) {
    if (isCollapsed) this.#collapsed.add(key);
    else this.#collapsed.delete(key);
    this.#draw();
  }
};

// src/ui/sessions.ts
var FRESH = "";
var ACTIONS = { n: "session-new", f: "session-fork", u: "session-undo", s: "session-save", Delete: "session-close" };
var Sessions = class {
  #backend;
  #events;
  #tree;
  #known = [];
  #states = [];
  #chosen = FRESH;
  /** The number of activities that block the panel: its own operations, and a running script. */
  #busyCount = 0;
  /**
   * The number of the latest refresh. The results of earlier refreshes are out of date, and would show a new session as
   * lost.
   */
  #lastLook = 0;
  constructor(backend2, events) {
    this.#backend = backend2;
    this.#events = events;
    this.#tree = new Tree(
      byId("session-tree"),
      (node) => void this.#choose(node),
      (key) => this.#pressed(key)
    );
    byId("session-new").addEventListener("click", () => void this.#do(() => this.#open()));
    byId("session-fork").addEventListener("click", () => void this.#do(() => this.#fork()));
    byId("session-undo").addEventListener("click", () => void this.#do(() => this.#undo(void 0)));
    byId("session-save").addEventListener("click", () => void this.#do(() => this.#backend.checkpoint(this.#chosen)));
    byId("session-close").addEventListener("click", () => void this.#do(() => this.#close()));
    this.#draw();
  }
  /** The selected session; `undefined` for a new interpreter. */
  get current() {
    return this.#known.find(({ id }) => id === this.#chosen);
  }
  /** Reloads the sessions and checkpoints from the backend. */
  async refresh() {
    const look = ++this.#lastLook;
    const known = await this.#backend.sessions();
    if (look !== this.#lastLook) return;
    this.#known = known;
    if (this.#chosen !== FRESH && !this.current) {
      const why = "It was closed elsewhere, or ended with a script that had to be stopped.";
      this.#events.failed(new Problem("refused", "A session is lost", `The session \`${this.#chosen}\` is lost. ${why}`));
      this.#chosen = FRESH;
    }
    const states = this.#chosen === FRESH ? [] : await this.#backend.checkpoints(this.#chosen);
    if (look !== this.#lastLook) return;
    this.#states = states;
    this.#draw();
    this.#events.changed();
  }
  /** Disables the panel while a script runs. */
  busy(isBusy) {
    this.#busyCount += isBusy ? 1 : -1;
    this.#enable();
  }
  focus() {
    this.#tree.focus();
  }
  #draw() {
    const fresh = { key: FRESH, label: "New interpreter", detail: "each run", kind: "fresh", isSelected: this.#chosen === FRESH, children: [] };
    this.#tree.show([fresh, ...branches(this.#known).map((branch) => this.#node(branch))]);
    this.#enable();
  }
  #node({ session: { id, executions }, forks }) {
    const isSelected = id === this.#chosen;
    const states = isSelected ? this.#states.map((state) => stateNode(id, state)) : [];
    return { key: id, label: id, detail: plural(executions, "run"), kind: "session", isSelected, children: [...states, ...forks.map((fork) => this.#node(fork))] };
  }
  #enable() {
    const isSession = this.#chosen !== FRESH;
    for (const id of Object.values(ACTIONS)) byId(id).disabled = this.#busyCount > 0 || id !== "session-new" && !isSession;
  }
  #pressed(key) {
    const id = ACTIONS[key.length === 1 ? key.toLowerCase() : key];
    if (id === void 0) return false;
    byId(id).click();
    return true;
  }
  async #choose(node) {
    if (this.#busyCount > 0) return;
    if (node.kind === "state") {
      const [id = "", checkpoint] = node.key.split("#");
      if (id === this.#chosen) await this.#do(() => this.#undo(Number(checkpoint)));
      return;
    }
    this.#chosen = node.key;
    await this.#do(async () => void 0);
  }
  /** Runs an operation on sessions, and shows the new state. */
  async #do(work) {
    if (this.#busyCount > 0) return;
    this.busy(true);
    this.#lastLook += 1;
    try {
      await work();
    } catch (error) {
      this.#events.failed(error);
    }
    try {
      await this.refresh();
    } catch (error) {
      this.#events.failed(error);
    } finally {
      this.busy(false);
    }
  }
  async #open() {
    const language = this.#events.language();
    this.#chosen = await this.#named((taken) => newName(language, taken), (name) => this.#backend.open(name, language));
  }
  async #fork() {
    const from = this.#chosen;
    this.#chosen = await this.#named((taken) => forkName(from, taken), (name) => this.#backend.fork(from, name));
  }
  /** Creates a session under an unused name. Retries, because another page may take the same name at the same time. */
  async #named(propose, make) {
    const taken = new Set((await this.#backend.sessions()).map(({ id }) => id));
    for (let attempts = 1; ; attempts += 1) {
      const name = propose(taken);
      try {
        return (await make(name)).id;
      } catch (error) {
        if (problemOf(error).kind !== "conflict" || attempts === 5) throw error;
        taken.add(name);
      }
    }
  }
  async #undo(checkpoint) {
    await this.#backend.undo(this.#chosen, checkpoint);
  }
  async #close() {
    await this.#backend.close(this.#chosen);
    this.#chosen = FRESH;
  }
};
function stateNode(session, { id, automatic, executions }) {
  const label = executions === 0 ? "before the first run" : `after run ${executions}`;
  return { key: `${session}#${id}`, label, detail: automatic ? "undo to" : "saved", kind: "state", isSelected: false, children: [] };
}

// src/ui/theme.ts
var NAMES = ["auto", "light", "dark"];
var LABELS = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
function installTheme() {
  const button = byId("theme");
  const stored = NAMES.find((name) => name === localStorage.getItem("glovebox-theme"));
  let current = stored ?? "auto";
  const show = () => {
    document.documentElement.dataset["theme"] = current;
    button.setAttribute("aria-label", LABELS[current]);
    button.title = LABELS[current];
  };
  button.addEventListener("click", () => {
    current = NAMES[(NAMES.indexOf(current) + 1) % NAMES.length] ?? "auto";
    localStorage.setItem("glovebox-theme", current);
    show();
  });
  show();
}

// src/ui/usage.ts
var Usage = class {
  #root;
  constructor(root) {
    this.#root = root;
  }
  /** Shows the limits. */
  allow(allowed) {
    this.#show(allowed, void 0);
  }
  /** Shows the resource use of a run. */
  used(allowed, execution) {
    this.#show(allowed, execution);
  }
  #show(allowed, execution) {
    this.#root.replaceChildren(
      meter("Time", execution?.duration_ms, allowed.timeoutMs, duration),
      meter("Fuel", execution?.fuel_consumed, allowed.fuel, count),
      meter("Memory", execution?.memory_used_bytes, allowed.memoryBytes, bytes)
    );
  }
};
function meter(name, used, most, format) {
  const share = used === void 0 ? 0 : Math.min(1, used / most);
  const bar = h("span", { class: "bar" });
  bar.style.inlineSize = `${used === void 0 ? 0 : Math.max(1.5, share * 100)}%`;
  const text = used === void 0 ? `up to ${format(most)}` : `${format(used)} of ${format(most)}`;
  const track = h("span", { class: "track", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": most, "aria-valuenow": used ?? 0, "aria-valuetext": text }, bar);
  if (share > 0.8) track.dataset["high"] = "";
  return h("div", { class: "meter" }, h("span", { class: "name" }, name), h("span", { class: "amount" }, text), track);
}

// src/app.ts
var NAMES2 = { python: "Python", javascript: "JavaScript", typescript: "TypeScript" };
var FIRST = {
  python: 'import sys\n\nprint("Hello from", sys.version.split()[0])\nfor n in range(1, 6):\n    print(n, n ** 2, "#" * n)\n',
  javascript: "const words = ['quiet', 'sealed', 'gloves'];\nconsole.log(words.map((word) => word.toUpperCase()).join(' '));\n",
  typescript: "interface Stock { name: string; count: number }\n\nconst stock: Stock[] = [{ name: 'flask', count: 3 }];\nfor (const { name, count } of stock) console.log(name, count);\n"
};
var DRAFT = "glovebox-draft";
var RETRY_MS = 3e3;
var App = class {
  #form;
  #backend;
  #output = new Output(byId("output"), byId("outcome"));
  #usage = new Usage(byId("usage"));
  #language = byId("language");
  #stdin = byId("stdin");
  #connection = byId("connection");
  #editor;
  #files;
  #sessions;
  #info;
  #place;
  #running;
  constructor(form) {
    this.#form = form;
    this.#backend = form.backend;
    installTheme();
    this.#editor = new Editor(byId("editor"), () => void this.run(), () => this.#remember());
    this.#files = new Files(this.#backend, (error) => this.#failed(error));
    this.#sessions = new Sessions(this.#backend, {
      changed: () => this.#placeChanged(),
      failed: (error) => this.#failed(error),
      language: () => this.#runtimeLanguage
    });
    byId("run").addEventListener("click", () => void this.run());
    byId("stop").addEventListener("click", () => this.stop());
    byId("notice-close").addEventListener("click", () => byId("notice").hidden = true);
    this.#language.addEventListener("change", () => this.#languageChanged());
    for (const id of ["limit-time", "limit-fuel", "limit-memory"]) byId(id).addEventListener("input", () => this.#showAllowed());
    installKeys(
      [
        [byId("controls"), () => this.#language.focus()],
        [byId("editor"), () => this.#editor.focus()],
        [byId("output"), () => byId("output").focus()],
        [byId("sessions"), () => this.#sessions.focus()],
        [byId("files"), () => byId("upload-button").focus()]
      ],
      { run: () => void this.run(), stop: () => this.stop() }
    );
    this.#recall();
  }
  /** Loads the provider's description, and shows the page. */
  async start() {
    for (; ; ) {
      try {
        this.#info = await this.#backend.info();
        break;
      } catch (error) {
        const problem = problemOf(error);
        if (problem.kind === "unauthorized") await this.#letIn(problem);
        else {
          this.#connect("lost", problem.message);
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    }
    const { where, runtimes, languages, limits } = this.#info;
    const versions = runtimes.map(({ language, version }) => [NAMES2[language], version].filter(Boolean).join(" ")).join(", ");
    this.#connect("connected", `${where} · ${versions}`);
    for (const option of this.#language.options) option.hidden = option.disabled = !languages.includes(option.value);
    if (this.#language.selectedOptions[0]?.disabled) this.#language.value = languages[0] ?? "python";
    this.#languageChanged();
    this.#offerExamples();
    byId("limit-time").placeholder = duration(limits.timeoutMs);
    byId("limit-fuel").placeholder = count(limits.fuel);
    byId("limit-memory").placeholder = bytes(limits.memoryBytes);
    this.#showAllowed();
    byId("run").disabled = false;
    await this.#sessions.refresh().catch((error) => this.#failed(error));
  }
  /** Runs the script in the editor. */
  async run() {
    if (this.#running || !this.#info) return;
    const running = new AbortController();
    this.#running = running;
    this.#busy(true);
    this.#output.begin(this.#info.streams ? "Running…" : "Running… Output appears when the script has ended.");
    const session = this.#sessions.current?.id;
    const limits = session === void 0 ? this.#askedLimits() : {};
    try {
      const done = await this.#backend.run(
        { source: this.#editor.text, language: this.#language.value, stdin: this.#stdin.value, session, files: this.#files.own, limits },
        (piece) => this.#output.add(piece),
        running.signal
      );
      this.#output.end(done);
      this.#usage.used(this.#allowed(), done.execution);
      if (session === void 0 && done.files) this.#files.take(done.files);
      this.#connect("connected");
    } catch (error) {
      const problem = problemOf(error);
      this.#output.fail(problem);
      this.#noticed(problem);
    }
    this.#running = void 0;
    this.#busy(false);
    if (session !== void 0) await this.#sessions.refresh().catch((error) => this.#failed(error));
    else await this.#files.show(void 0);
  }
  /** Stops the running script. */
  stop() {
    this.#running?.abort();
  }
  get #runtimeLanguage() {
    return this.#language.value === "python" ? "python" : "javascript";
  }
  #busy(isBusy) {
    const [run, stop] = [byId("run"), byId("stop")];
    const hadFocus = document.activeElement === run || document.activeElement === stop;
    this.#sessions.busy(isBusy);
    run.hidden = isBusy;
    stop.hidden = !isBusy;
    if (hadFocus) (isBusy ? stop : run).focus();
    byId("output").setAttribute("aria-busy", String(isBusy));
  }
  #askedLimits() {
    const number = (id) => {
      const value = byId(id).valueAsNumber;
      return Number.isFinite(value) && value > 0 ? value : void 0;
    };
    const [timeoutMs, fuel, mebibytes] = [number("limit-time"), number("limit-fuel"), number("limit-memory")];
    return {
      ...timeoutMs !== void 0 && { timeoutMs: Math.round(timeoutMs) },
      ...fuel !== void 0 && { fuel: Math.round(fuel) },
      ...mebibytes !== void 0 && { memoryBytes: Math.round(mebibytes * (1 << 20)) }
    };
  }
  #allowed() {
    const limits = this.#info?.limits ?? { timeoutMs: 0, fuel: 0, memoryBytes: 0 };
    return this.#sessions.current ? limits : { ...limits, ...this.#askedLimits() };
  }
  #showAllowed() {
    this.#usage.allow(this.#allowed());
  }
  #placeChanged() {
    const session = this.#sessions.current;
    const language = this.#language.value;
    if (session && session.language !== this.#runtimeLanguage) this.#language.value = session.language;
    for (const option of this.#language.options) {
      const isOfSession = !session || option.value === "python" === (session.language === "python");
      option.disabled = !isOfSession || !this.#info?.languages.includes(option.value);
    }
    if (language !== this.#language.value) this.#languageChanged();
    byId("limit-fields").disabled = session !== void 0;
    byId("limit-note").hidden = session === void 0;
    byId("place").textContent = session ? `in ${session.id}` : "in a new interpreter";
    byId("files-of").textContent = session ? session.id : "for each new interpreter";
    if (this.#place !== session?.id) this.#showAllowed();
    this.#place = session?.id;
    this.#files.show(session?.id).catch((error) => this.#failed(error));
  }
  #languageChanged() {
    const language = this.#language.value;
    this.#editor.language = language;
    if (this.#editor.text.trim() === "" || Object.values(FIRST).includes(this.#editor.text)) this.#editor.text = FIRST[language];
    this.#remember();
  }
  #offerExamples() {
    const select = byId("examples");
    const offered = EXAMPLES.filter(({ language, needsPackages }) => this.#info?.languages.includes(language) && (this.#info.packages || !needsPackages));
    const option = (title, index) => h("option", { value: index }, `${title} · ${NAMES2[offered[index]?.language ?? "python"]}`);
    select.replaceChildren(h("option", { value: "" }, "Examples…"), ...offered.map(({ title }, index) => option(title, index)));
    select.onchange = () => {
      const example = offered[Number(select.value)];
      select.value = "";
      if (example) void this.#load(example);
    };
  }
  async #load({ language, source, files }) {
    const session = this.#sessions.current;
    const isOtherLanguage = session && session.language === "python" !== (language === "python");
    if (isOtherLanguage) {
      this.#notice("Another language", `This example is in ${NAMES2[language]}, and the session \`${session.id}\` is not. Choose “New interpreter” first.`);
      return;
    }
    this.#language.value = language;
    this.#editor.text = source;
    this.#languageChanged();
    const encoded = Object.entries(files).map(([path, text]) => [path, new TextEncoder().encode(text)]);
    try {
      for (const [path, contents] of encoded) {
        if (session) await this.#backend.writeFile(session.id, path, contents);
        else this.#files.own.set(path, contents);
      }
      await this.#files.show(session?.id);
    } catch (error) {
      this.#failed(error);
    }
    this.#editor.focus();
  }
  /** Saves the script, so that it survives a reload of the page. */
  #remember() {
    try {
      sessionStorage.setItem(DRAFT, JSON.stringify([this.#language.value, this.#editor.text]));
    } catch {
    }
  }
  #recall() {
    const stored = sessionStorage.getItem(DRAFT);
    if (stored === null) return;
    const [language, text] = JSON.parse(stored);
    this.#language.value = language;
    this.#editor.language = language;
    this.#editor.text = text;
  }
  #failed(error) {
    const problem = problemOf(error);
    this.#noticed(problem);
    if (problem.kind === "unauthorized" || problem.kind === "lost") return;
    this.#notice(problem.title, sentence(problem));
  }
  /** Reacts to a problem that affects the whole page: a lost connection, or a missing token. */
  #noticed(problem) {
    if (problem.kind === "lost") void this.#reconnect(problem);
    if (problem.kind === "unauthorized") void this.#letIn(problem).then(() => this.start());
  }
  async #letIn(problem) {
    this.#connect("lost", "No token");
    await this.#form.letIn?.(problem);
  }
  async #reconnect(problem) {
    if (this.#connection.dataset["state"] === "lost") return;
    this.#connect("lost", problem.message);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    await this.start();
  }
  #connect(state, text) {
    this.#connection.dataset["state"] = state;
    if (text !== void 0) this.#connection.textContent = text;
  }
  #notice(title, text) {
    byId("notice-title").textContent = title;
    byId("notice-text").textContent = text.slice(0, 2e3);
    byId("notice").hidden = false;
  }
};

// src/backend/lines.ts
var MAX_LINE_CHARS = 128 << 20;
async function* jsonLines(stream) {
  const decoder = new TextDecoder();
  let parts = [];
  let length = 0;
  const reader = stream.getReader();
  try {
    for (; ; ) {
      const { done, value } = await reader.read();
      const lines = (done ? decoder.decode() : decoder.decode(value, { stream: true })).split("\n");
      for (const [index, line] of lines.entries()) {
        parts.push(line);
        length += line.length;
        if (length > MAX_LINE_CHARS) throw new Error("the server sent a line that is too long for this page");
        const isWhole = index < lines.length - 1 || done;
        if (!isWhole) continue;
        const text = parts.join("");
        [parts, length] = [[], 0];
        if (text.trim() !== "") yield JSON.parse(text);
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => void 0);
  }
}

// src/backend/http.ts
var NAMES3 = { python: void 0, javascript: void 0, typescript: "script.ts" };
var HttpBackend = class {
  #base;
  #token;
  constructor(base, token2) {
    this.#base = base;
    this.#token = token2;
  }
  async info() {
    const { version, runtimes, policy } = await this.#json("GET", "v1/info");
    const languages = new Set(runtimes.map((each) => each["language"]));
    return {
      where: `Glovebox ${version}`,
      runtimes,
      languages: [
        ...languages.has("python") ? ["python"] : [],
        ...languages.has("javascript") ? ["javascript", "typescript"] : []
      ],
      limits: allowedOf(policy.limits),
      streams: true,
      packages: true
    };
  }
  async run(script, onPiece, signal) {
    const { source, language, session, stdin } = script;
    const name = NAMES3[language];
    const body = { source, ...name && { name }, ...stdin !== "" && { stdin } };
    if (session === void 0) {
      const { fuel, timeoutMs, memoryBytes } = script.limits;
      const limits = { ...fuel && { fuel }, ...timeoutMs && { timeout_ms: timeoutMs }, ...memoryBytes && { memory_bytes: memoryBytes } };
      body["language"] = language === "python" ? "python" : "javascript";
      body["files"] = Object.fromEntries([...script.files].map(([path2, bytes2]) => [path2, { base64: toBase64(bytes2) }]));
      body["return_files"] = ["**"];
      if (Object.keys(limits).length > 0) body["policy"] = { limits };
    }
    const path = session === void 0 ? "v1/execute" : `${sessionPath(session)}/execute`;
    const response = await this.#fetch("POST", path, JSON.stringify(body), { Accept: "application/x-ndjson" }, signal);
    if (!response.body) throw lost();
    try {
      for await (const line of jsonLines(response.body)) {
        const piece = line;
        if (piece["type"] === "stdout" || piece["type"] === "stderr") onPiece({ stream: piece["type"], text: String(piece["text"]) });
        else if (piece["type"] === "error") throw problemOf2(piece["problem"]);
        else if (piece["type"] === "result") return doneOf(piece["result"]);
      }
    } catch (error) {
      throw failureOf(error);
    }
    throw lost();
  }
  async sessions() {
    return (await this.#json("GET", "v1/sessions"))["sessions"];
  }
  async open(id, language) {
    return await this.#json("POST", "v1/sessions", { id, language });
  }
  async fork(id, as) {
    return await this.#json("POST", `${sessionPath(id)}/fork`, { id: as });
  }
  async close(id) {
    await this.#fetch("DELETE", sessionPath(id));
  }
  async checkpoint(id) {
    await this.#fetch("POST", `${sessionPath(id)}/checkpoint`);
  }
  async checkpoints(id) {
    return (await this.#json("GET", `${sessionPath(id)}/checkpoints`))["checkpoints"];
  }
  async undo(id, checkpoint) {
    await this.#fetch("POST", `${sessionPath(id)}/undo`, JSON.stringify(checkpoint === void 0 ? {} : { checkpoint }));
  }
  async files(id) {
    const { files } = await this.#json("GET", `${sessionPath(id)}/files`);
    const only = files.filter((entry) => entry["kind"] === "file");
    return only.map(({ path, size_bytes }) => ({ path, sizeBytes: size_bytes }));
  }
  async readFile(id, path) {
    const response = await this.#fetch("GET", filePath(id, path));
    return new Uint8Array(await response.arrayBuffer());
  }
  async writeFile(id, path, contents) {
    await this.#fetch("PUT", filePath(id, path), contents);
  }
  async deleteFile(id, path) {
    await this.#fetch("DELETE", filePath(id, path));
  }
  async #json(method, path, body) {
    const response = await this.#fetch(method, path, body && JSON.stringify(body));
    return response.json();
  }
  async #fetch(method, path, body, headers = {}, signal) {
    const token2 = this.#token.get();
    const all = { ...headers, ...token2 !== void 0 && { Authorization: `Bearer ${token2}` } };
    const options = { method, headers: all, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" };
    if (body !== void 0) options.body = body;
    if (signal) options.signal = signal;
    let response;
    try {
      response = await fetch(new URL(path, this.#base), options);
    } catch (error) {
      throw failureOf(error);
    }
    if (!response.ok) throw problemOf2(await response.json().catch(() => ({})), response.status);
    return response;
  }
};
function sessionPath(id) {
  return `v1/sessions/${encodeURIComponent(id)}`;
}
function filePath(id, path) {
  return `${sessionPath(id)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
}
function allowedOf(limits) {
  return { fuel: limits["fuel"], timeoutMs: limits["timeout_ms"], memoryBytes: limits["memory_bytes"] };
}
function doneOf(result) {
  const files = new Map(Object.entries(result["files"] ?? {}).map(([path, text]) => [path, fromBase64(text)]));
  return { execution: result, files, filesLeftOut: result["files_left_out"] ?? 0 };
}
function failureOf(error) {
  if (error instanceof Problem || error instanceof DOMException && error.name === "AbortError") return error;
  return error instanceof TypeError ? lost() : error;
}
function lost() {
  return new Problem("lost", "No response", "The server cannot be reached. The page retries automatically.");
}
var KINDS = { 401: "unauthorized", 409: "conflict", 429: "busy", 503: "busy" };
function problemOf2(problem, status = Number(problem["status"])) {
  const title = String(problem["title"] ?? `Status ${status}`);
  const detail = String(problem["detail"] ?? "The server gave no reason.");
  const after = problem["retry_after"];
  return new Problem(KINDS[status] ?? "refused", title, detail, typeof after === "number" ? after : void 0);
}

// src/ui/token.ts
var NAME = "glovebox-token";
var Token = class {
  /** Reads the token from the address and removes it there: others could see it, and the history would keep it. */
  constructor() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given === null) return;
    this.#set(given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  get() {
    return sessionStorage.getItem(NAME) ?? void 0;
  }
  #set(token2) {
    sessionStorage.setItem(NAME, token2);
  }
  /** Asks the user for a token after the server has refused the request. */
  ask(problem) {
    const printed = "This server requires a token: the one that `glovebox serve` printed, or one that you were given.";
    const reason = this.get() === void 0 ? printed : sentence(problem);
    const dialog = byId("token-dialog");
    const input = byId("token-input");
    byId("token-reason").textContent = reason;
    if (!dialog.open) dialog.showModal();
    input.value = "";
    input.focus();
    return new Promise((resolve) => {
      byId("token-form").onsubmit = (event) => {
        event.preventDefault();
        const token2 = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(token2)) {
          byId("token-reason").textContent = "A token contains only ASCII letters, digits and punctuation.";
          return;
        }
        this.#set(token2);
        input.value = "";
        dialog.close();
        resolve();
      };
    });
  }
};

// src/server.ts
var token = new Token();
var backend = new HttpBackend(new URL("./", location.href), token);
await new App({ backend, letIn: (problem) => token.ask(problem) }).start();
