import os

print(os.environ.get("MINE", "none"))
os.environ["MINE"] = "set"
print(os.environ["MINE"])
