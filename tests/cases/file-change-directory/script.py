import os

os.mkdir("sub")
os.chdir("sub")
open("here.txt", "w").close()
