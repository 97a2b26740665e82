print(eval("(" * 120 + "1" + ")" * 120))
try:
    print(eval("(" * 190 + "1" + ")" * 190))
except MemoryError as error:
    print(type(error).__name__)
