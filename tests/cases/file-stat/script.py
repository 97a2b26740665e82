import os
import stat

s = os.stat("input.txt")
print(s.st_size, stat.S_ISREG(s.st_mode), os.path.isdir("input.txt"))
