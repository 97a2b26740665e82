try:
    eval("(" * 5_000 + ")" * 5_000)
except (SyntaxError, MemoryError, RecursionError) as error:
    print(type(error).__name__)
