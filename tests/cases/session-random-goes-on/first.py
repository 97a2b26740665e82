import random

first = random.random()
