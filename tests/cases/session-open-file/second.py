f.write("two")
