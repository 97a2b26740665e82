import base64, decimal, fractions, hashlib, heapq, statistics, urllib.parse
import xml.etree.ElementTree as ET
from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int


print(decimal.Decimal(1) / 3)
print(fractions.Fraction(1, 2) + fractions.Fraction(1, 3))
print(statistics.pstdev(range(10)))
print(hashlib.sha256(b"abc").hexdigest())
print(base64.b64encode(b"hi").decode())
print(Point(1, 2))
print(list(heapq.merge([1, 3], [1, 2])))
print(urllib.parse.urlencode({"a": 1, "b": "x y"}))
print(ET.fromstring("<a><b/></a>")[0].tag)
