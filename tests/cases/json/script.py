import json

value = json.loads('{"a": [1, 2.5, null, true, "\\u00e9"], "b": {"c": "x"}}')
print(json.dumps(value, separators=(",", ":")))
print(value["a"][1], value["a"][4])
