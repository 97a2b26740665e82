import tomli

print(tomli.loads('[a]\nb = [1, 2.5, true]\nc = 2024-01-02'))
try:
    tomli.loads("a = ")
except tomli.TOMLDecodeError as error:
    print(error)
