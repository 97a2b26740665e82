from io import StringIO

import pandas as pd
from bs4 import BeautifulSoup
from lxml import html

with open("page.html", encoding="utf-8") as f:
    text = f.read()

frame = pd.read_html(StringIO(text))[0]
print(frame.to_string())
print(int(frame["Population"].sum()))

for parser in "html.parser", "lxml", "html5lib":
    soup = BeautifulSoup(text, parser)
    rows = [[td.get_text(strip=True) for td in tr.find_all("td")] for tr in soup.select("table#cities tr")]
    print(parser, rows[1:], soup.title.string)
print([a["href"] for a in soup.find_all("a", href=True)], soup.find("p", class_="note").text)

tree = html.fromstring(text)
print(tree.xpath("//table[@id='cities']//tr[td]/td[1]/text()"), tree.xpath("normalize-space(//p)"))
frame.to_html("out.html", index=False, border=0)
print(pd.read_html("out.html", flavor="bs4")[0].equals(frame))
