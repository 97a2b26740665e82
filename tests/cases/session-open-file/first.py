f = open("f", "w")
f.write("one")
