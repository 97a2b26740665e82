x = 1
raise RuntimeError("no")
