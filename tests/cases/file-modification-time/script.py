import os

open("f", "w").close()
print(int(os.stat("f").st_mtime))
