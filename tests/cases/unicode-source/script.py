größe = "äß"
print(len(größe), len("😀"))
