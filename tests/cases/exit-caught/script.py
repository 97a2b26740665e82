import sys

try:
    sys.exit(9)
except SystemExit as error:
    print("caught", error.code)
