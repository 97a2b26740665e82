import json
import random

from sandbox_utils import json_to_yaml, yaml_dump, yaml_load, yaml_to_json

WORDS = [
    "",
    "a",
    "no",
    "Yes",
    "1",
    "0x1f",
    "1e3",
    ".5",
    "-",
    "- a",
    "a: b",
    "a #b",
    "#c",
    "[x]",
    "{",
    "'q'",
    '"d"',
    "a\nb",
    "a\n",
    "a\n\n",
    " lead",
]
WORDS += [
    "trail ",
    "x\n  y\nz",
    "\tt",
    "日本",
    "😀",
    "null",
    "~",
    "---",
    "...",
    "2024-01-02",
    "1:30",
    "\r",
    "\0",
    "\x85",
    "\u2028",
    "a:",
    "http://x/y?z=1",
]
WORDS += [
    "k: |\n  t\n",
    "\n",
    "\n\na",
    "%",
    "@x",
    "`",
    "*a",
    "&a",
    "!t",
    "|",
    ">",
    "\\",
    "a\\nb",
    "007",
    "+1",
    "0o7",
    "=",
    "<<",
    "\ud800",
    "# x\ny",
    "a\n \n",
]
LETTERS = "ab \n\t:#-'\"[]{},&*!|>%@`é\\"


def value(depth):
    kind = random.random() if depth else 1
    if kind < 0.25:
        return {random.choice(WORDS): value(depth - 1) for _ in range(random.randrange(4))}
    if kind < 0.5:
        return [value(depth - 1) for _ in range(random.randrange(4))]
    number = random.random() * 10 ** random.randrange(-30, 30)
    text = "".join(random.choices(LETTERS, k=random.randrange(12)))
    return random.choice([random.choice(WORDS), text, None, True, False, random.randrange(-999, 999), 10**30, number])


random.seed(1)
wrong = 0
for _ in range(300):
    before = value(4)
    text = yaml_dump(before)
    # As JSON, so that 1 is not True and not 1.0; JSON itself is read as YAML too.
    after = [
        json.dumps(each)
        for each in (before, yaml_load(text), json.loads(yaml_to_json(text)), yaml_load(json.dumps(before)))
    ]
    wrong += len(set(after)) != 1 or json_to_yaml(after[0]) != text
print(wrong, "of 300 values came back changed")
# Whatever is read, the answer is a value or a ValueError that names a line.
read = 0
for _ in range(1500):
    try:
        yaml_load("".join(random.choices(LETTERS + "\n\n  1?~.+\r", k=random.randrange(1, 14))))
        read += 1
    except ValueError as error:
        assert str(error).startswith("line "), error
print(200 < read < 1300)
