print("x" * 9_999)
