import defusedxml
from defusedxml import ElementTree

print(ElementTree.fromstring("<a><b x='1'/></a>").find("b").attrib)
bomb = """<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>"""
try:
    ElementTree.fromstring(bomb)
except defusedxml.EntitiesForbidden as error:
    print(type(error).__name__, error.name)
