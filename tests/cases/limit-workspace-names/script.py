import os

made = []
try:
    for i in range(5_000):
        name = f"{i:05}" + "n" * 200
        os.mkdir(name)
        made.append(name)
    print("never full")
except OSError:
    print("full")
for name in made:
    os.rmdir(name)
