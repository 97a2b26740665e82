import io
from xml.etree.ElementTree import Element

import et_xmlfile

out = io.BytesIO()
with et_xmlfile.xmlfile(out) as file:
    with file.element("rows", count="2"):
        for number in range(2):
            file.write(Element("row", n=str(number)))
print(out.getvalue().decode())
