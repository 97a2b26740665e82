import math

x = 41


def hello(name):
    return "hello " + name


class Box:
    def __init__(self, v):
        self.v = v


box = Box("Ann")
print("one")
