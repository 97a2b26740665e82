with open("log.txt", "a") as f:
    f.write("two\n")
print(open("log.txt").read(), end="")
