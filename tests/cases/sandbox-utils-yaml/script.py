import json
from pathlib import Path

from sandbox_utils import cat, echo, json_to_yaml, yaml_dump, yaml_load, yaml_to_json

text = """\
# A service
---
name: "caf\\u00e9 \\ud83d\\ude00"   # quoted
url: http://example.com:80/a?b=c#d
version: 1.2
replicas: 3
enabled: true
country: no
since: 2024-01-02
nothing:
also: ~
'it''s': 'x: # y'
ports:
- 80
- 0x1F
- 1e3
matrix:
  - [1, 2, {a: b, "c":null}]
  - - nested
    - -.inf
jobs:
  - name: build
    steps: [
      one,   # in brackets
      'two, three',
    ]
  -
    name: test
script: |
  if x:
      print("#1")

  done
folded: >-
  one
  two

  three
    kept
  four
kept: |+
  a

2: number
...
"""
value = yaml_load(text)
for key, entry in value.items():
    print(repr(key), repr(entry))
print(yaml_load(yaml_dump(value)) == value, yaml_load(""), yaml_load("- \n-"), yaml_load("just text"))
value["matrix"] = 1
echo(yaml_dump(value), "service.yaml")
print(
    json.loads(yaml_to_json("service.yaml")) == json.loads(json.dumps(value)),
    yaml_to_json(Path("service.yaml"), "out.json"),
)
print(json_to_yaml(cat("out.json")), end="")
print(
    json_to_yaml(
        {
            "empty": {},
            "list": [],
            "nested": [[1, []], {"a": [{"b": 1.5e20}]}],
            "odd": ["- a", "a: b", " a", "12:30", "x\n y\n"],
        }
    ),
    end="",
)
