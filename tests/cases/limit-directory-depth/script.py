import os

path = "/".join(["d"] * 200)
os.makedirs(path)
with open(path + "/f", "w") as f:
    f.write("content")
print(open(path + "/f").read())
os.remove(path + "/f")
depth = 200
try:
    while depth < 1_000:
        os.mkdir(path + "/d")
        path += "/d"
        depth += 1
    print("never refused")
except OSError:
    print("refused below 1000")
os.removedirs(path)
print("still there" if os.path.exists("d") else "gone")
