import zipfile

import xlsxwriter

with xlsxwriter.Workbook("out.xlsx") as book:
    sheet = book.add_worksheet("Data")
    bold = book.add_format({"bold": True, "num_format": "0.00"})
    sheet.write_row(0, 0, ["a", "b"])
    sheet.write(1, 0, 1.5, bold)
    sheet.write_formula(1, 1, "=A2*2", None, 3)

with zipfile.ZipFile("out.xlsx") as archive:
    print(*sorted(archive.namelist()), sep="\n")
    print(b"<v>1.5</v>" in archive.read("xl/worksheets/sheet1.xml"))
