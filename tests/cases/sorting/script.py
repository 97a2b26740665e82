items = [(i * 7919) % 2000 for i in range(2000)]
items.sort()
print(items[0], items[-1], items == sorted(items, reverse=True)[::-1])
