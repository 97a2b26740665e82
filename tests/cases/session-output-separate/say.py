import sys

print("said")
print("aside", file=sys.stderr)
