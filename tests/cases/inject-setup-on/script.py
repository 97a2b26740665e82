import urllib3; print('OK')
import sys

print("/app/site-packages" in sys.path)
