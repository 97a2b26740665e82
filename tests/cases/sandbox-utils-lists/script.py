from dataclasses import dataclass

from sandbox_utils import chunk, filter_by, group_by, map_items, sort_by, unique


@dataclass
class City:
    name: str
    size: int


users = [
    {"name": "Ann", "age": 31, "country": "US"},
    {"name": "Bob", "age": None, "country": "UK"},
    {"name": "Cy", "age": 25, "country": "US"},
]
cities = [City("Oslo", 7), City("Rome", 28)]
print({key: map_items(group, "name") for key, group in group_by(users, lambda user: user["country"]).items()})
print(list(group_by(cities, "size")), group_by([(1, "a"), (2, "b"), (1, "c")], 0))
print(
    map_items(filter_by(users, lambda user: user["age"]), "name"),
    map_items(filter_by(users, "age", country="US"), "name"),
)
print(
    map_items(sort_by(users, "age"), "name"), map_items(sort_by(users, lambda user: user["age"], reverse=True), "name")
)
print(sort_by(["b", "a", "C"], str.lower), sort_by([(1, "x"), (0, "y"), (1, "a")], 0, reverse=True))
print(unique([3, 1, 3, 1.0, True, "1"]), unique([[1], [1], {"a": [1]}, {"a": [1]}, (1,), {1}, {1}]))
print(map_items(unique(users, key=lambda user: user["country"]), "name"), unique("abca"))
print(chunk(range(7), 3), chunk([], 2), [sum(batch) for batch in chunk((n for n in range(4)), size=2)])
for attempt in [
    lambda: group_by(users, "email"),
    lambda: group_by(cities, "mayor"),
    lambda: sort_by([1, "a"], lambda item: item),
    lambda: filter_by(users),
    lambda: chunk([1], 0),
    lambda: chunk([1], "2"),
]:
    try:
        attempt()
    except (KeyError, TypeError, ValueError) as error:
        print(type(error).__name__, error.args[0])
