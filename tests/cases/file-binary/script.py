data = bytes(range(256))
with open("bytes.bin", "wb") as f:
    f.write(data)
with open("bytes.bin", "rb") as f:
    back = f.read()
print(len(back), back[-1], back == data)
