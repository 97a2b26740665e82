import os

os.makedirs("/app/subdir/deeper")
with open("/app/subdir/file.txt", "w") as f:
    f.write("a")
with open("subdir/deeper/other.txt", "w") as f:
    f.write("b")
