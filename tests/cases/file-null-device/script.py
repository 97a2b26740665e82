import os
import stat

print(open(os.devnull).read() + "empty")
with open(os.devnull, "wb") as null:
    chunk = bytes(1_000_000)
    print(sum(null.write(chunk) for _ in range(100)), "written")
with open(os.devnull, "r+b") as null:
    null.write(b"abc")
    null.seek(1)
    print(null.tell() + len(null.read()), "at the beginning")
    print(null.isatty(), "no terminal")
print(stat.S_ISCHR(os.stat(os.devnull).st_mode) and os.path.exists(os.devnull), "a device")
open(os.devnull, "a").close()
try:
    os.remove(os.devnull)
except OSError:
    print("not removed")
