import os
import sys

print(1)
sys.stdout.flush()
os.write(1, b"2\n")
sys.stdout.buffer.write(b"3\n")
sys.stdout.flush()
print(4, flush=True)
sys.stderr.write("e1\n")
os.write(2, b"e2\n")
