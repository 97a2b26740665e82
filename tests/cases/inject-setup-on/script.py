import urllib3; print('OK')
import sys

print(sys.path[-1])
