import sys

x = 1
print(__name__)
print(sys.modules["__main__"].x == 1)
print([name for name in globals() if not name.startswith("__") and name != "sys"])
