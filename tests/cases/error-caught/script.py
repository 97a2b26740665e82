try:
    raise ValueError(1)
except ValueError as error:
    print("caught", error)
finally:
    print("finally")
