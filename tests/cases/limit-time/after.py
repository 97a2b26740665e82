print("usable")
