def fibs():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


g = fibs()
print(*(next(g) for _ in range(8)))
