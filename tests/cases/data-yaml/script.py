import tomllib

import yaml

with open("config.yaml", encoding="utf-8") as f:
    config = yaml.safe_load(f)
print(config)
print(type(config["released"]).__name__, config["servers"][1]["port"] + 1, config["defaults"] == config["servers"][0]["options"])

config["servers"].append({"name": "gamma", "port": 8082, "tags": ["neu", "größer"]})
del config["released"]
with open("out.yaml", "w", encoding="utf-8") as f:
    yaml.safe_dump(config, f, sort_keys=False, allow_unicode=True)

print([d["n"] for d in yaml.safe_load_all("n: 1\n---\nn: 2\n")])
try:
    yaml.safe_load("a: [1, 2")
except yaml.YAMLError as error:
    print(type(error).__name__, error.problem_mark.line)
try:
    yaml.safe_load("!!python/object/apply:os.system ['ls']")
except yaml.constructor.ConstructorError:
    print("refused")
print(tomllib.loads("[a]\nb = 1979-05-27")["a"]["b"].year)
print(yaml.load("x: 1", Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
