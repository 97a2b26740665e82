import sys

seen = []
sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name))


def f():
    pass


f()
sys.settrace(None)
print(seen)
