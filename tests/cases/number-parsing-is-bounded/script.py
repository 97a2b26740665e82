try:
    int("9" * 5_000)
except ValueError as error:
    print(type(error).__name__)
