import zipfile

with zipfile.ZipFile("a.zip", "w") as z:
    z.writestr("x.txt", "hello")
with zipfile.ZipFile("a.zip") as z:
    print(z.read("x.txt"))
