import sys

data = sys.stdin.buffer.read()
lines = data.decode().split("\n")
print(f"{len(lines)} lines, last {lines[-1]}, {len(data)} bytes")
