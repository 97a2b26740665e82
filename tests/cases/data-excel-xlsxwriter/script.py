import zipfile

import pandas as pd
import xlsxwriter

book = xlsxwriter.Workbook("budget.xlsx")
sheet = book.add_worksheet("Budget")
bold = book.add_format({"bold": True, "bg_color": "#DDEEFF"})
money = book.add_format({"num_format": "#,##0.00"})
sheet.write_row(0, 0, ["Item", "Cost"], bold)
for row, (item, cost) in enumerate([("Rent", 1000), ("Gas", 100.5), ("Food", 300)], start=1):
    sheet.write(row, 0, item)
    sheet.write_number(row, 1, cost, money)
sheet.write(4, 0, "Total", bold)
sheet.write_formula(4, 1, "=SUM(B2:B4)", money, 1400.5)
chart = book.add_chart({"type": "column"})
chart.add_series({"categories": "=Budget!$A$2:$A$4", "values": "=Budget!$B$2:$B$4"})
sheet.insert_chart("D2", chart)
sheet.set_column("A:A", 20)
book.close()

print(pd.read_excel("budget.xlsx").to_string(index=False))
names = zipfile.ZipFile("budget.xlsx").namelist()
print("xl/charts/chart1.xml" in names, len(names) > 8)

with pd.ExcelWriter("styled.xlsx", engine="xlsxwriter") as writer:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.1, 0.2]})
    frame.to_excel(writer, sheet_name="s", startrow=1)
    writer.sheets["s"].conditional_format("B3:B4", {"type": "data_bar"})
print(pd.read_excel("styled.xlsx", header=1, index_col=0).values.tolist())
