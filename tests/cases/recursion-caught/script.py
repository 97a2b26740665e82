def f(n):
    return f(n + 1)


try:
    f(0)
except RecursionError as error:
    print(type(error).__name__)
print("still here", sum(range(10)))
