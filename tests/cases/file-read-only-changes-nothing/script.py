print(open('input.txt').read(), end="")
