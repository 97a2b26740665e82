import sys

print("e" * 5000, file=sys.stderr)
print("whole")
