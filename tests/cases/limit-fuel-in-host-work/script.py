import os

while True:
    os.urandom(1_000_000)
