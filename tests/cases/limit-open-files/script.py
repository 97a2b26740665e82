held = []
try:
    for _ in range(100):
        held.append(open("f", "w"))
except OSError:
    print("refused below 17" if 8 < len(held) < 17 else len(held))
for each in held:
    each.close()
open("f", "w").close()
print("usable")
