import errno
import os

try:
    with open("big", "wb", buffering=0) as f:
        for _ in range(100):
            if f.write(b"x" * 65536) < 65536:
                raise OSError(errno.ENOSPC, "short write")
    print("never full")
except OSError as error:
    print({errno.ENOSPC: 28}.get(error.errno, error))
os.remove("big")
with open("small", "wb") as f:
    f.write(b"x" * 500_000)
print("after deleting: ok")
