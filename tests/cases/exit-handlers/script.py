import atexit

atexit.register(print, "first")
atexit.register(print, "second")
print("body")
