from pypdf import PdfReader, PdfWriter
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen import canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

styles = getSampleStyleSheet()
table = Table([["Name", "Score"], ["Ann", "12"], ["Bob", "9"]])
table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 1, colors.black), ("BACKGROUND", (0, 0), (-1, 0), colors.lightgrey)]))
story = [Paragraph("Quarterly report", styles["Title"]), Spacer(1, 12), table, PageBreak(), Paragraph("Second page", styles["Normal"])]
SimpleDocTemplate("report.pdf", pagesize=A4, title="Report").build(story)

c = canvas.Canvas("cover.pdf", pagesize=A4)
c.setFont("Helvetica-Bold", 24)
c.drawString(72, 700, "Cover")
c.showPage()
c.save()

reader = PdfReader("report.pdf")
print(len(reader.pages), reader.metadata.title, [round(float(v)) for v in reader.pages[0].mediabox[2:]])
print(reader.pages[0].extract_text().split())
writer = PdfWriter()
writer.append("cover.pdf")
writer.append("report.pdf", pages=(1, 2))
writer.add_metadata({"/Author": "Ann"})
writer.pages[0].rotate(90)
with open("merged.pdf", "wb") as f:
    writer.write(f)
merged = PdfReader("merged.pdf")
print([page.extract_text().strip() for page in merged.pages], merged.metadata.author, merged.pages[0].rotation)
