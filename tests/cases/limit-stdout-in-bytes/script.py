print("é" * 10)
