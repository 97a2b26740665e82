piece = b"x" * 1_000_000
f = open("big", "wb", buffering=0)
try:
    for _ in range(100):
        f.write(piece)
except (OSError, MemoryError):
    print("refused")
