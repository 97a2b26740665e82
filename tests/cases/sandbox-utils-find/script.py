from sandbox_utils import echo, find, mkdir

for name in ["a.csv", "b.txt", ".hidden.csv", "data/c.csv", "data/2024/d.csv", "data/2024/e.CSV", "data/[x].csv"]:
    mkdir(name.rpartition("/")[0] or ".")
    echo("x", name)

print([str(path) for path in find("*.csv")])
print([str(path) for path in find("*.csv", ".")])
print([str(path) for path in find("*.csv", "data", recursive=False)])
print([str(path) for path in find("?.*", "data")])
print([str(path) for path in find("[[]*", "data")], [str(path) for path in find("[!c].*", "data/")])
print([str(path) for path in find("**/d.csv", ".")], [str(path) for path in find("data/*.csv", ".")])
print([str(path) for path in find("20*", ".", kind="dir")], [str(path) for path in find("*4*", kind="any")])
print(find()[0].suffix, find("*.nothing"))
for attempt in [
    lambda: find("/app", "*.csv"),
    lambda: find("*", "nowhere"),
    lambda: find("*", "a.csv"),
    lambda: find(7),
    lambda: find("*", kind="f"),
    lambda: find("*", ""),
]:
    try:
        attempt()
    except (OSError, TypeError, ValueError) as error:
        print(type(error).__name__, error)
