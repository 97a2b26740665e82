text = ",".join(str(i) for i in range(2000))
print(len(text) + 1)
print(text[:9])
