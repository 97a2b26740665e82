print(open("log.txt").read(), end="")
