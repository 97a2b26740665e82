import os

from sandbox_utils import copy_tree, echo, find, ls, mkdir, remove_tree, rm, tree, walk

mkdir("inside/deep")
mkdir("outside")
echo("kept", "outside/kept.txt")
echo("x", "inside/x.txt")
os.symlink("../outside", "inside/directory")
os.symlink("../outside/kept.txt", "inside/out.txt")
os.symlink("x.txt", "inside/in.txt")
os.symlink("..", "inside/deep/up")
os.symlink("nowhere", "inside/broken.txt")

print(tree("inside"))
print([str(path) for path in walk("inside")])
print([str(path) for path in find("*.txt", "inside")])
print([item["type"] for item in ls("inside", long=True)])
copy_tree("inside", "copy")
print(os.readlink("copy/directory"), [str(path) for path in walk("copy")])
rm("copy/directory")
remove_tree("copy")
remove_tree("inside")
print(tree("."))
