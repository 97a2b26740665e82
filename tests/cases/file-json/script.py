import json

with open("/app/data.json", "w") as f:
    json.dump({"counter": 1}, f)
with open("/app/data.json") as f:
    print(json.load(f)["counter"])
