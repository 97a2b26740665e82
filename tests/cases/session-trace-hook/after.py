import sys

print(sys.gettrace(), sys.getprofile())
