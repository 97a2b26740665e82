import sys
print(sys.argv, sys.stdin.read().split())
