import os

print(os.getcwd())
open("here.txt", "w").close()
