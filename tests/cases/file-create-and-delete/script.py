import os

open("temp", "w").close()
os.remove("temp")
print(os.listdir())
