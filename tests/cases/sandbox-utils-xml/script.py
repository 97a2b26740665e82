from pathlib import Path

from sandbox_utils import echo, xml_to_dict

print(xml_to_dict('<root><person id="1"><name>Ann</name><age> 30 </age></person></root>'))
print(xml_to_dict("<r><i>1</i><i/><i a='x'>t</i><j> </j>tail</r>"))
print(
    xml_to_dict(
        '<?xml version="1.0" encoding="UTF-8"?>\n<a:r xmlns:a="urn:x" a:k="v"><a:b><![CDATA[<&>]]></a:b>&lt;&#233;</a:r>'
    )
)
echo("<x>file</x>", "in.xml")
print(xml_to_dict("in.xml"), xml_to_dict(Path("in.xml")))
value = xml_to_dict("<a>" * 3000 + "x" + "</a>" * 3000)
depth = 0
while isinstance(value, dict):
    value, depth = value["a"], depth + 1
print(depth, value)
for text in [
    "<a><b></a>",
    "<a>",
    "<a/><b/>",
    '<!DOCTYPE a [<!ENTITY x "xxxx"><!ENTITY y "&x;&x;">]>\n<a>&y;</a>',
    "<a>&nbsp;</a>",
    7,
]:
    try:
        print(xml_to_dict(text))
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
