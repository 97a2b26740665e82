import json

try:
    json.loads("[" * 100_000)
except RecursionError as error:
    print(type(error).__name__)
