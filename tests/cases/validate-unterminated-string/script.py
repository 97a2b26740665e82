a = 1
b = "never closed
