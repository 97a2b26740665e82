print("said")
