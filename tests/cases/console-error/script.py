import sys

print("error message", file=sys.stderr)
