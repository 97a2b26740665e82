import csv
from datetime import date

from openpyxl import Workbook, load_workbook
from openpyxl.styles import Font

book = Workbook()
sheet = book.active
sheet.title = "Expenses"
with open("expenses.csv", newline="") as file:
    rows = csv.reader(file)
    sheet.append([name.title() for name in next(rows)])
    for day, category, amount in rows:
        sheet.append([date.fromisoformat(day), category, float(amount)])
last = sheet.max_row
sheet.append([None, "Total", f"=SUM(C2:C{last})"])
for cell in sheet[1] + sheet[last + 1]:
    cell.font = Font(bold=True)
for cell in sheet["C"][1:]:
    cell.number_format = "#,##0.00"
sheet.column_dimensions["A"].width = 12
sheet.freeze_panes = "A2"
book.save("expenses.xlsx")

again = load_workbook("expenses.xlsx")["Expenses"]
print(again.dimensions, again.freeze_panes, again["B1"].font.bold)
for row in again.iter_rows(min_row=2, values_only=True):
    print(*(value.date() if hasattr(value, "date") else value for value in row))
