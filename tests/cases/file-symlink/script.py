import os

os.symlink("input.txt", "link")
print(open("link").read(), end="")
print(os.path.islink("link"))
print(os.readlink("link"))
