import io
import zipfile

import mammoth

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
parts = {
    "word/document.xml": f"""<w:document xmlns:w="{WORD}"><w:body>
        <w:p><w:r><w:t>Plain and </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold &amp; more</w:t></w:r></w:p>
    </w:body></w:document>""",
    "_rels/.rels": f"""<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Target="word/document.xml"
        Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>""",
    "[Content_Types].xml": """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>""",
}
file = io.BytesIO()
with zipfile.ZipFile(file, "w") as archive:
    for name, text in parts.items():
        archive.writestr(name, text)
print(mammoth.convert_to_html(file).value)
print(mammoth.extract_raw_text(file).value.strip())
