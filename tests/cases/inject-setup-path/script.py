import sys
print('/app/site-packages' in sys.path)
