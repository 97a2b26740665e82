import sys

sys.stdout.buffer.write(b"a\xffb\n")
