print("x" * 1000)
