import sys

sys.exit("no input given")
