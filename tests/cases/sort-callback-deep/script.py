def deep(x):
    return sorted([1, 2], key=deep)


try:
    deep(1)
except RecursionError as error:
    print(type(error).__name__)
