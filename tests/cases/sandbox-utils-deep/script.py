import os

from sandbox_utils import copy_tree, find, grep, mkdir, remove_tree, tree, walk

depth = 250
mkdir("d/" * depth)
with open("d/" * depth + "bottom.txt", "w") as file:
    file.write("found\n")
print(len(list(walk())), len(tree("d").splitlines()), len(find("d", kind="dir")), grep("found", "d")[0][1:])
copy_tree("d", "e")
remove_tree("d")
print(sum(1 for _ in walk()), os.path.exists("d"), os.path.exists("e"))
remove_tree("e")
