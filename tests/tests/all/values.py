"""Generates valid and invalid scripts, and prints those for which the driver and Python's syntax tree disagree."""

import random
import sys
import types

driver = sys._getframe(1).f_globals
halves, whole, ast = driver["halves"], driver["source"], driver["ast"]
modes, held = {}, []


def compiled(*args):
    """Compiles code, and records the mode: `eval` for an expression, `exec` for statements."""
    code = compile(*args)
    if isinstance(code, types.CodeType):
        held.append(code)
        modes[id(code)] = args[2]
    return code


def evaluated(source):
    """Returns `True` if the last statement is an expression, and "error" if the source does not compile."""
    try:
        tree = ast.parse(source)
        compile(source, "", "exec", 0, True)
    except Exception:
        return "error"
    return bool(tree.body) and isinstance(tree.body[-1], ast.Expr)


def found(source):
    driver["source"] = source
    held.clear()
    try:
        head, tail = halves("")
    except Exception:
        return "error"
    return tail is not None and modes[id(tail)] == "eval"


EXPRESSIONS = [
    "x", "1", "'a'", '"b;c"', "f(x)", "f(\n  x)", "[1,\n2]", "(x,\ny)", "'''p\nq; r\n'''", '"""m\nx = 1\n"""', "f'{x}'",
    'f"{x!r:>{y}}"', "x \\\n + 1", "lambda: 0", "x if y else z", "not x", "x == y", "x != y", "x <= y", "x[a:b]", "x.y",
    "*a, b", "a, b", "print('#')", "'('", "')'", "'\\\n;'", "r'\\d'", "'\\d'", "{1: 2}", "{\nx: 1 # {\n}", "f(\nx=1 # (\n)",
    "f(\nx=1,\ny=2)", "[\nx\nfor x in y\nif x\n]", "x \\\nif y else z", "match", "match(x)", "match[x:\ny]", "case", "type",
    "...", "None", '"""d"""', "'\"\"\"'", "\"'''\"", "(a\n@b)", "a \\\n@b", "(x := 1)", '"""\n@d """', "a or\\\nb", "a<b>c",
    "-x", "é", "x ;", "a;b", "x := 1", "await x", "1if x else 2", "`",
]
STATEMENTS = [
    "x = 1", "x = y = f(1)", "x, y = 1, 2", "x: int", "x: int = 3", "x += 1", "x.y[0] = 1", "x[a][b] = f(\n1)", "f(x).y = 3",
    "(x) = 1", "[x, y] = 1, 2", "import os", "from a import b", "from a import (\nb,\nc)", "from a \\\nimport b", "del x", "pass",
    "raise x", "assert True, \\\nx", "raise x \\\nfrom y", "global x", "global g", "type X = int", "x = 'a;b'", "print x",
    'x = """\na\nb = 1 # \n"""', "x = '''\n@d\n'''", "x = {\n'a': 1,\n'b': 2\n}", "x = [\n{'a':1},\n{'b':2},\n{'c':3}]",
    "a = \\\nb", "from __future__ import annotations", "return", "nonlocal x",
]
BLOCKS = [
    "if x: y", "if x:\n  y\nelse:\n  z", "if x:\n  y\nelif z: w", "for i in x:\n  i; j", "for i in x: i\nelse: 1", "while x: y",
    "def f(): pass", 'def f():\n  """doc"""\n  return 1', "def f():\n  '''d\nx\n'''\n  global x\n  x = 1", "@d\ndef f(): pass",
    "@d\n@e(\n1)\n# c\nclass C: pass", "class C:\n  x = 1\n\n  def y(self): return 1", "try: x\nexcept: y",
    "try:\n  x\nexcept A:\n  y\nexcept B:\n  z\nfinally:\n  w", "with x: y", "with (a as b,\nc as d):\n  e", "if x: y; z;",
    "async def f(): await x", "match x:\n  case 1: y", "match x: # c\n  case _:\n    y; z", "while x:\n  global q\n  q",
    "def g(x): return (\nx\n)", "\fdef f(): pass", "\fx", "x\f", "if x:\n\f  y", "  x", " \\\nx",
]
COMMENTS = ["", "# c", "# (", '# """', "  # c", "\t", "\f", "# c \\", "# ;", '"""', "'''", ")", "(", "\\"]
TOKENS = [
    "{", "}", "[", "]", ":", "=", ";", "'", '"', "@", "if", "else", "for", "in", "lambda", "\n", "  ", "x", "1", ",", "\\\n", "#",
    "\r", "\r\n", "(", ")", "'''", '"""', "def f():", "\f", "import os", "f", "\0",
]


def statement(draw):
    kind = draw.random()
    if kind < 0.4:
        text = draw.choice(EXPRESSIONS)
    elif kind < 0.6:
        text = draw.choice(STATEMENTS)
    elif kind < 0.8:
        text = draw.choice(BLOCKS)
    else:
        parts = [draw.choice(EXPRESSIONS + STATEMENTS) for _ in range(draw.randint(1, 3))]
        text = draw.choice([";", "; ", " ; "]).join(parts) + draw.choice(["", ";", "; # x"])
    if draw.random() < 0.12:
        text += draw.choice([" # c", " # ;", " # (", '  # """', " # )", "# '''", " ", " # c \\"])
    if draw.random() < 0.05:
        opened = draw.choice(["f(", "[", "(", "{", "x = (", '"""', "'''", "a + \\"])
        text = f"{opened}\n{text}\n" + draw.choice([")", "]", ")", "}", ")", '"""', "'''", ""])
    return text


def script(draw):
    if draw.random() < 0.1:
        return "".join(draw.choice(TOKENS) for _ in range(draw.randint(1, 14)))
    parts = []
    for _ in range(draw.randint(1, 4)):
        if draw.random() < 0.15:
            parts.append(draw.choice(COMMENTS))
        parts.append(statement(draw))
    text = "\n".join(parts) + draw.choice(["", "\n", "\n\n", "  "])
    change = draw.random()
    at = draw.randrange(len(text) + 1)
    if change < 0.05:
        return text.replace("\n", "\r\n")
    if change < 0.08:
        return text.replace("\n", "\r")
    if change < 0.12:
        return text[:at] + draw.choice(TOKENS) + text[at:]
    return text[:at] + text[at + 1 :] if change < 0.15 else text


draw = random.Random(16)
counts = {True: 0, False: 0, "error": 0}
driver["compile"] = compiled
try:
    for _ in range(int(sys.argv[1])):
        source = script(draw)
        truth = evaluated(source)
        counts[truth] += 1
        if found(source) != truth:
            print(repr(source), "is", truth)
finally:
    del driver["compile"]
    driver["source"] = whole
print(counts[True] > 500, counts[False] > 500, counts["error"] > 500)
