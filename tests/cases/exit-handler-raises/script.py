import atexit


def late():
    raise ValueError("late")


atexit.register(late)
print("body")
