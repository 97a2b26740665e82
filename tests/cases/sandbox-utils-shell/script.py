from pathlib import Path

from sandbox_utils import cat, cp, echo, find, ls, mkdir, mv, rm, touch

mkdir("data/2024")
mkdir("data")
echo("one", "data/a.txt")
echo("two", file="data/a.txt", append=True)
echo("three", Path("data") / "b.txt")
touch("data/.hidden")
touch("data/a.txt")
print(ls("data"), ls("data", all=True), ls("data/a.txt"))
print(
    [
        (item["name"], item["size"], item["type"], item["permissions"][0], len(item["modified"]))
        for item in ls("data", long=True)
    ]
)
print(cat("data/a.txt", "data/b.txt"), cat(find("*.txt", "data")) == cat("data/a.txt", "data/b.txt"))
cp("data/a.txt", "copy.txt")
cp("data/a.txt", "data/2024")
cp("data", "whole", recursive=True)
cp("data", "whole", recursive=True)
print(find("*.txt", "."))
mv("copy.txt", "renamed.txt")
mv("renamed.txt", "data/2024")
mv("whole/data", "moved")
rm("whole", recursive=True)
rm("missing", force=True)
rm("data/b.txt")
print([str(path) for path in find("*", ".")])
echo()
echo(["text", 1])
rm("moved", recursive=True)
rm("data", recursive=True)
