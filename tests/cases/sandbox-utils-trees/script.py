from sandbox_utils import cat, copy_tree, echo, mkdir, remove_tree, tree, walk

mkdir("data/2024/q1")
for name in ["data/a.txt", "data/2024/b.log", "data/2024/q1/c.txt", "z.txt"]:
    echo(name, name)

print(tree("data"))
print(tree(".", max_depth=1))
print([str(path) for path in walk("data")])
print([path.name for path in walk(filter_func=lambda path: path.stat().st_size > 10)])

copy_tree("data", "copy/of")
echo("changed", "data/a.txt")
copy_tree("data", "copy/of")
print(cat("copy/of/a.txt", "copy/of/2024/q1/c.txt"), end="")
remove_tree("copy", pattern="*.txt")
print(tree("copy"))
remove_tree("copy/of/2024")
print(tree("copy"))
remove_tree("copy")

for attempt in [
    lambda: copy_tree("data", "data/2024/again"),
    lambda: copy_tree("data", "data"),
    lambda: copy_tree("z.txt", "y"),
    lambda: copy_tree("nowhere", "y"),
    lambda: remove_tree("z.txt"),
    lambda: remove_tree("/app"),
    lambda: remove_tree("."),
    lambda: remove_tree("data/.."),
    lambda: remove_tree("/"),
    lambda: tree("data", 0),
    lambda: walk("z.txt"),
]:
    try:
        attempt()
    except (OSError, ValueError) as error:
        print(type(error).__name__, error)
