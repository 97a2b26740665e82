import os

import numpy as np

np.arange(3, dtype="int64").tofile("a.bin")
print(os.path.getsize("a.bin"), np.fromfile("a.bin", dtype="int64").tolist())
with open("b.bin", "wb") as file:
    np.ones(2).tofile(file)
    file.write(b"x")
with open("b.bin", "rb") as file:
    print(np.fromfile(file, count=2).tolist(), file.read())
