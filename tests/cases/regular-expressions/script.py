import re

m = re.search(r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)", "on 2026-11-21 at noon")
print(m["y"] + "-" + m["m"] + "-" + m["d"])
print(len(re.findall(r"\bword\b", "word words word sword word")))
print(re.sub(r"[^a-z]+", "_", "x--y  z"))
