import os

piece = b"x" * 65536
with open("big", "wb") as f:
    for _ in range(128):
        f.write(piece)
print(os.stat("big").st_size)
