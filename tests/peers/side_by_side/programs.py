"""Eleven small programs in both languages, each of which exercises one part of an interpreter."""

from __future__ import annotations

from collections.abc import Mapping

# Name, description, Python code, JavaScript code and expected answer.
Program = tuple[str, str, str, str, str]

PROGRAMS: tuple[Program, ...] = (
    (
        "calls",
        "function calls: the 22nd Fibonacci number",
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(22))",
        "var fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2);\nconsole.log(String(fib(22)));",
        "17711",
    ),
    (
        "loop",
        "600,000 rounds of `for`",
        "def work():\n    s = 0\n    for i in range(600_000):\n        s += i & 7\n    return s\nprint(work())",
        "var work = () => { let s = 0; for (const i of Array(600000).keys()) s += i & 7; return s; };\nconsole.log(String(work()));",
        "2100000",
    ),
    (
        "while",
        "400,000 rounds of `while`",
        "def work():\n    i = s = 0\n    while i < 400_000:\n        s ^= i\n        i += 1\n    return s\nprint(work())",
        "var work = () => { let i = 0, s = 0; while (i < 400000) { s ^= i; i += 1; } return s; };\nconsole.log(String(work()));",
        "0",
    ),
    (
        "floats",
        "300,000 divisions and additions",
        "def work():\n    x = 0.0\n    for i in range(1, 300_000):\n        x += 1.0 / (i * i)\n    return x\nprint(work())",
        "var work = () => { let x = 0; for (let i = 1; i < 300000; i++) x += 1 / (i * i); return x; };\nconsole.log(String(work()));",
        "1.6449307335093666",
    ),
    (
        "dicts",
        "120,000 updates of a dictionary by integer keys",
        "def work():\n    d = {}\n    for i in range(120_000):\n        d[i % 5003] = d.get(i % 5003, 0) + i\n    return len(d)\nprint(work())",
        """var work = () => {
    const d = new Map();
    for (let i = 0; i < 120000; i++) d.set(i % 5003, (d.get(i % 5003) ?? 0) + i);
    return d.size;
};
console.log(String(work()));""",
        "5003",
    ),
    (
        "objects",
        "100,000 objects and method calls",
        """class P:
    __slots__ = ('x', 'y')
    def __init__(self, x, y):
        self.x = x
        self.y = y
    def dot(self, o):
        return self.x * o.x + self.y * o.y
def work():
    a = P(1, 2)
    s = 0
    for i in range(100_000):
        s += a.dot(P(i, 3))
    return s
print(work())""",
        """var P = class {
    constructor(x, y) { this.x = x; this.y = y; }
    dot(o) { return this.x * o.x + this.y * o.y; }
};
var work = () => { const a = new P(1, 2); let s = 0; for (let i = 0; i < 100000; i++) s += a.dot(new P(i, 3)); return s; };
console.log(String(work()));""",
        "5000550000",
    ),
    (
        "strings",
        "90,000 strings, joined and split",
        "def work():\n    return len(''.join(str(i).rjust(7, '.').upper() for i in range(90_000)).split('.'))\nprint(work())",
        """var work = () => {
    const parts = [];
    for (let i = 0; i < 90000; i++) parts.push(String(i).padStart(7, '.').toUpperCase());
    return parts.join('').split('.').length;
};
console.log(String(work()));""",
        "191111",
    ),
    (
        "generators",
        "250,000 values of a generator",
        """def gen(n):
    for i in range(n):
        yield i * i
def work():
    return sum(x for x in gen(250_000) if x % 3)
print(work())""",
        """var gen = function* (n) { for (let i = 0; i < n; i++) yield i * i; };
var work = () => { let s = 0; for (const x of gen(250000)) if (x % 3) s += x; return s; };
console.log(String(work()));""",
        "3472180555638889",
    ),
    (
        "json",
        "6,000 objects written as JSON and read",
        """import json
rows = [{'id': i, 'name': 'n%d' % i, 'tags': ['a', 'b', str(i)]} for i in range(6_000)]
def work():
    return len(json.loads(json.dumps(rows)))
print(work())""",
        """var rows = Array.from({ length: 6000 }, (_, i) => ({ id: i, name: 'n' + i, tags: ['a', 'b', String(i)] }));
var work = () => JSON.parse(JSON.stringify(rows)).length;
console.log(String(work()));""",
        "6000",
    ),
    (
        "regex",
        "a regular expression with 4,000 matches",
        """import re
text = ''.join('user%d@host.example; ' % i for i in range(4_000))
def work():
    return len(re.findall(r'([a-z]+)(\\d+)@([a-z.]+)', text))
print(work())""",
        """var text = Array.from({ length: 4000 }, (_, i) => 'user' + i + '@host.example; ').join('');
var work = () => [...text.matchAll(/([a-z]+)(\\d+)@([a-z.]+)/g)].length;
console.log(String(work()));""",
        "4000",
    ),
    (
        "sort",
        "120,000 numbers sorted by a key",
        """rows = []
x = 1
for _ in range(120_000):
    x = x * 16807 % 2147483647
    rows.append(x)
def work():
    return sorted(rows, key=lambda v: -v)[0]
print(work())""",
        """var rows = [];
for (let i = 0, x = 1; i < 120000; i++) { x = x * 16807 % 2147483647; rows.push(x); }
var work = () => rows.slice().sort((a, b) => b - a)[0];
console.log(String(work()));""",
        "2147483531",
    ),
)

NAMES = frozenset(name for name, *_ in PROGRAMS)


def mean_ratio(ms: Mapping[str, float], zero: Mapping[str, float]) -> float | None:
    """Returns the geometric mean of the ratios `ms / zero`, or `None` if a program is missing from either."""
    product = 1.0
    for name in NAMES:
        if name not in ms or name not in zero:
            return None
        product *= ms[name] / zero[name]
    return float(product ** (1 / len(NAMES)))
