nested = []
for _ in range(100_000):
    nested = [nested]
try:
    repr(nested)
except RecursionError as error:
    print(type(error).__name__)


class Meta(type):
    def __call__(cls):
        return cls()


class Loop(metaclass=Meta): ...


try:
    Loop()
except RecursionError as error:
    print(type(error).__name__)
