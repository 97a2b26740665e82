items = []
while True:
    items.append("x" * 10_000 + str(len(items)))
