import sys

for _ in range(200):
    sys.stdout.write("y" * 100_000)
