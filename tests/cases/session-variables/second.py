x += 1
print(x, hello(box.v), math.sqrt(9))
