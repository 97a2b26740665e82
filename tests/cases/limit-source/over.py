print("far over the limit")
