try:
    x = bytearray(100_000_000)
except MemoryError:
    print("caught")
print("still", sum(range(5)))
