print("first")
print("second", end="")
sum(range(10**12))
