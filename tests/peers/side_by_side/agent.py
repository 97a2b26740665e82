"""The commands of the measure `agent run`, in both languages. Each command uses the variables of earlier commands. Only
the last one prints, so that contestants without sessions can run all earlier commands again before each command."""

from __future__ import annotations

NAME = "agent run"
PYTHON: tuple[str, ...] = (
    """readings = [
    {"city": "Oslo", "celsius": [3, 5, 4]},
    {"city": "Rome", "celsius": [15, 18, 17]},
    {"city": "Cairo", "celsius": [24, 27, 26]},
]""",
    "def mean(values):\n    return sum(values) / len(values)",
    'means = {each["city"]: mean(each["celsius"]) for each in readings}',
    "warm = [city for city, celsius in means.items() if celsius > 10]",
    "import json\ntext = json.dumps(means)",
    "loaded = json.loads(text)",
    'spread = {each["city"]: max(each["celsius"]) - min(each["celsius"]) for each in readings}',
    'total = sum([len(each["celsius"]) for each in readings])',
    "hottest = sorted(means, key=lambda city: -means[city])[0]",
    """print(f"{hottest}: {spread[hottest]}; {total} readings of {len(loaded)} cities; warm: {', '.join(warm)}")""",
)
JAVASCRIPT: tuple[str, ...] = (
    """var readings = [
    { city: "Oslo", celsius: [3, 5, 4] },
    { city: "Rome", celsius: [15, 18, 17] },
    { city: "Cairo", celsius: [24, 27, 26] },
];""",
    "var mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;",
    "var means = Object.fromEntries(readings.map((each) => [each.city, mean(each.celsius)]));",
    "var warm = Object.entries(means).filter(([, celsius]) => celsius > 10).map(([city]) => city);",
    "var text = JSON.stringify(means);",
    "var loaded = JSON.parse(text);",
    """var spread = Object.fromEntries(
    readings.map((each) => [each.city, Math.max(...each.celsius) - Math.min(...each.celsius)]));""",
    "var total = readings.reduce((sum, each) => sum + each.celsius.length, 0);",
    "var hottest = Object.keys(means).sort((a, b) => means[b] - means[a])[0];",
    """console.log(`${hottest}: ${spread[hottest]}; ${total} readings of ${Object.keys(loaded).length} cities; """
    """warm: ${warm.join(", ")}`);""",
)
# The answer to `1 + 1`, which starts the run, and the output of the last command.
EXPECTED = "2 Cairo: 3; 9 readings of 3 cities; warm: Rome, Cairo"
