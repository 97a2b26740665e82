import re
from collections import Counter

import pandas as pd
import regex

with open("app.log", encoding="utf-8") as f:
    lines = f.read().splitlines()

pattern = re.compile(r"^(?P<time>\S+) \[(?P<level>[A-Z]+)\] (?P<source>[\w.]+): (?P<message>.*)$")
rows = [m.groupdict() for line in lines if (m := pattern.match(line))]
df = pd.DataFrame(rows)
df["time"] = pd.to_datetime(df["time"])
print(len(lines), len(df), df["level"].value_counts().to_dict())
print(df["message"].str.extract(r"took (\d+) ms")[0].dropna().astype(int).tolist())
print(df[df["message"].str.contains("timeout|refused", case=False)]["source"].tolist())

words = regex.findall(r"\p{L}+", " ".join(df["message"]).lower())
print(sorted(Counter(words).most_common(), key=lambda p: (-p[1], p[0]))[:4])
print(regex.findall(r"\p{Lu}\w*", "Straße Über ändern Ναι no"))
print(regex.search(r"(?:timeout){e<=1}", "a timeuot? timeou!").group(), regex.fullmatch(r"(\((?:[^()]|(?1))*\))", "(a(b)c)") is not None)
print(re.sub(r"\b(\d{1,3})\.\d+\.\d+\.(\d{1,3})\b", r"\1.x.x.\2", lines[2]))
print(df["source"].str.split(".").str[-1].str.upper().tolist())
