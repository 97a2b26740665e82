import io

from PyPDF2 import PdfReader, PdfWriter

writer = PdfWriter()
writer.add_blank_page(width=200, height=100)
writer.add_blank_page(width=300, height=100).rotate(90)
writer.add_metadata({"/Title": "Two pages"})
file = io.BytesIO()
writer.write(file)

reader = PdfReader(file)
print(len(reader.pages), reader.metadata.title)
for page in reader.pages:
    print(page.mediabox.width, page.mediabox.height, page.get("/Rotate", 0))
