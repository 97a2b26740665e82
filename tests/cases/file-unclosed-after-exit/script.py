import sys

kept = open('/app/left.txt', 'w')
kept.write("written before")
sys.exit(3)
