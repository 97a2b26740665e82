print(random.random() != first)
