from sandbox_utils import json_to_yaml, yaml_dump, yaml_load, yaml_to_json

texts = """\
a: &x 1
b: *x
a: !!str 1
? a
a: 1|a: 2
a: 1|---|b: 2
a:|	- b
a: 'open
a: [1, 2
a: [1 2], 3
a: x|  y
a: b: c
- a|b: 1
a: @x
a: - b
%YAML 1.2|---|a
a: "\\q"
a: [b: 1]
{a, a}
a: {[b]: 1}
- - 1| - 2
a:| b| c: 1
a: >x
--- a
""".splitlines()
for text in texts:
    try:
        print("read", yaml_load(text.replace("|", "\n")))
    except ValueError as error:
        print(f"{text!r}: {error}")
nested = 0
for _ in range(100):
    nested = [nested]
print(yaml_load(yaml_dump(nested)) == nested)
loop = []
loop.append(loop)
deep = "[" * 100 + "]" * 100
blocks = "- " * 100 + "x"
for attempt in [
    lambda: yaml_load(deep) and print("100 levels"),
    lambda: yaml_load(blocks) and print("100 levels"),
    lambda: yaml_load(f"[{deep}]"),
    lambda: yaml_load(f"- {blocks}"),
    lambda: yaml_dump([nested]),
    lambda: yaml_load("[" * 100_000),
    lambda: yaml_load("- " * 100_000),
    lambda: yaml_dump(loop),
    lambda: yaml_dump({"a": {1}}),
    lambda: yaml_dump({(1, 2): 3}),
    lambda: yaml_load(b"a"),
    lambda: yaml_to_json("a: .nan"),
    lambda: json_to_yaml("{"),
    lambda: yaml_load("9" * 5000),
]:
    try:
        attempt()
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
