import tempfile

with tempfile.TemporaryFile(dir="/app") as f:
    f.write(b"temp")
    f.seek(0)
    print(f.read())
