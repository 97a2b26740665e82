print("x" * 999)
