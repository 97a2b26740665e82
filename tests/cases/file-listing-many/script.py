import os

os.mkdir("d")
for i in range(500):
    open(f"d/file-with-a-rather-long-name-{i}", "w").close()
names = os.listdir("d")
print(len(names), len(set(names)))
for name in names:
    os.remove("d/" + name)
os.rmdir("d")
