import os

with open("grüße 😀.txt", "w") as f:
    f.write("ü")
open("with space", "w").close()
print(len([n for n in os.listdir("/app") if "ü" in n or " " in n]))
