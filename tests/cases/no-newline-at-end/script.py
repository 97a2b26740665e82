import sys
sys.stdout.write("last")
