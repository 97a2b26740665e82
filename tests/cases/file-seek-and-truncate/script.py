with open("f", "w+b") as f:
    f.write(b"0123456789")
    f.seek(2)
    f.write(b"XX")
    print(f.tell())
    f.truncate(5)
    print(f.seek(0, 2))
