import os

os.remove("log.txt")
