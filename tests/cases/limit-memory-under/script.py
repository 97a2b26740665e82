data = bytearray(10_000_000)
print(len(data))
