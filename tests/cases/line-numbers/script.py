def outer():
    return inner()


# a comment
def inner():
    return 1 / 0


print("before")
outer()
