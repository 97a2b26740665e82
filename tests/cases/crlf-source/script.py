print(1)
# two
raise ValueError("three")
