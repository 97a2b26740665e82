import random

random.seed(42)
print(random.random(), end=" ")
random.seed(1)
items = [0, 1, 2, 3, 4]
print(random.sample(items, 3))
