import openpyxl

book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Sales"
for row in [("fruit", "count"), ("apple", 3), ("pear", 4.5)]:
    sheet.append(row)
sheet["B4"] = "=SUM(B2:B3)"
book.save("sales.xlsx")

again = openpyxl.load_workbook("sales.xlsx")
for row in again["Sales"].iter_rows(values_only=True):
    print(*row)
print(again.sheetnames, again["Sales"].dimensions)
