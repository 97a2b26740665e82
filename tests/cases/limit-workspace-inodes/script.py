import os

made = 0
try:
    for i in range(200):
        open(f"f{i}", "w").close()
        made += 1
except OSError:
    print("full below 51" if 40 < made < 51 else made)
for i in range(made):
    os.remove(f"f{i}")
open("again", "w").close()
print("room again")
