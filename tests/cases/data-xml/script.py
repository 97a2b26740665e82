import xml.etree.ElementTree as ET

import pandas as pd
from lxml import etree

root = ET.parse("books.xml").getroot()
print([(b.get("id"), b.findtext("title"), float(b.findtext("price"))) for b in root.iter("book")])

tree = etree.parse("books.xml")
print(tree.xpath("//book[price > 30]/title/text()"), tree.xpath("count(//book)"), tree.xpath("sum(//price)"))
frame = pd.read_xml("books.xml", xpath="//book")
print(frame.to_string())

for book in tree.getroot().findall("book"):
    etree.SubElement(book, "currency").text = "EUR"
tree.write("priced.xml", pretty_print=True, xml_declaration=True, encoding="UTF-8")
print(etree.parse("priced.xml").xpath("string(//book[1]/currency)"))

xslt = etree.XSLT(etree.XML(
    "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
    "<xsl:template match='/'><t><xsl:value-of select='//title[1]'/></t></xsl:template></xsl:stylesheet>"
))
print(str(xslt(tree)).strip().splitlines()[-1])
try:
    etree.fromstring("<a><b></a>")
except etree.XMLSyntaxError as error:
    print("XMLSyntaxError", error.lineno)
frame.to_xml("frame.xml", index=False)
print(len(pd.read_xml("frame.xml")))
