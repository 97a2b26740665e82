import re

from sandbox_utils import echo, find, grep, mkdir

mkdir("logs")
echo("start\nERROR disk full\nerror (minor)\nend", "logs/a.log")
echo("ok\nERROR a.b", "logs/b.log")
with open("logs/binary", "wb") as file:
    file.write(b"\xff\xfeERROR\x00\r\nmore\xff")

for match in grep("ERROR", find("*.log")):
    print(match)
print(grep("error", "logs/a.log", ignore_case=True))
print(grep(r"^\w+$", "logs/a.log"))
print(grep("(minor)", "logs/a.log", regex=False), grep("a.b", "logs", regex=False))
print(grep(re.compile("DISK", re.I), ["logs/a.log"]))
print([(file, number) for file, number, _ in grep("ERROR|more", "logs")])
for attempt in [lambda: grep("(minor", "logs"), lambda: grep("x", "missing.log"), lambda: grep("x", [7])]:
    try:
        attempt()
    except (OSError, TypeError, ValueError) as error:
        print(type(error).__name__, error)
