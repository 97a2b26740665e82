with open("log.txt", "w") as f:
    f.write("one\n")
