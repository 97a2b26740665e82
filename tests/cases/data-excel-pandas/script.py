import pandas as pd
from openpyxl import load_workbook

sales = pd.DataFrame({
    "date": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
    "item": ["Tea", "Café", None],
    "qty": [1, 2, 3],
    "price": [2.5, 3.75, 1.0],
})
summary = sales.groupby("item", dropna=False)["qty"].sum().reset_index()

with pd.ExcelWriter("report.xlsx", engine="openpyxl") as writer:
    sales.to_excel(writer, sheet_name="sales", index=False)
    summary.to_excel(writer, sheet_name="summary", index=False)

wb = load_workbook("report.xlsx")
ws = wb["sales"]
ws["E1"] = "total"
for row in range(2, ws.max_row + 1):
    ws[f"E{row}"] = f"=C{row}*D{row}"
ws.freeze_panes = "A2"
wb.save("report.xlsx")

sheets = pd.read_excel("report.xlsx", sheet_name=None)
print(list(sheets), sheets["sales"].shape)
print(sheets["sales"].iloc[:, :4].to_string())
print(sheets["summary"].fillna("-").values.tolist(), sheets["sales"]["date"].dt.day.tolist())
print(load_workbook("report.xlsx", read_only=True)["sales"]["E2"].value)
