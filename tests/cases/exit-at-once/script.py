import os

try:
    os._exit(6)
finally:
    print("finally")
