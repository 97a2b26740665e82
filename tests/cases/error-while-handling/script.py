try:
    raise ValueError("first")
except ValueError:
    1 / 0
