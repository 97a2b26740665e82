"""Functions for lists. A key is a function of an item, a dict key, an attribute name or a tuple index."""

from collections.abc import Mapping


def _getter(key):
    if callable(key):
        return key

    def get(item):
        try:
            if isinstance(key, str) and not isinstance(item, Mapping):
                return getattr(item, key)
            return item[key]
        except (AttributeError, LookupError, TypeError):
            has = (
                f"its keys are {', '.join(map(repr, item))}"
                if isinstance(item, Mapping)
                else f"its type is {type(item).__name__}"
            )
            raise KeyError(f"an item has no {key!r}; {has}") from None

    return get


def group_by(items, key):
    """Groups items by key. Returns a dict of lists, with the keys in order of first occurrence.

    >>> group_by(["ant", "bee", "crow"], len)
    {3: ['ant', 'bee'], 4: ['crow']}
    >>> group_by([{"city": "Oslo"}, {"city": "Rome"}], "city")
    {'Oslo': [{'city': 'Oslo'}], 'Rome': [{'city': 'Rome'}]}
    """
    get = _getter(key)
    groups = {}
    for item in items:
        groups.setdefault(get(item), []).append(item)
    return groups


def filter_by(items, predicate=None, **fields):
    """Returns the items that satisfy the predicate and whose fields equal `fields`. The predicate is a function or key.

    >>> filter_by([1, 2, 3, 4], lambda n: n % 2 == 0)
    [2, 4]
    >>> filter_by([{"city": "Oslo"}, {"city": "Rome"}], city="Rome")
    [{'city': 'Rome'}]
    """
    if predicate is None and not fields:
        raise TypeError(
            "filter_by() requires a predicate or fields: "
            "filter_by(items, lambda item: …) or filter_by(items, city='Rome')"
        )
    wanted = [(_getter(name), value) for name, value in fields.items()]
    holds = (lambda item: True) if predicate is None else _getter(predicate)
    return [item for item in items if holds(item) and all(get(item) == value for get, value in wanted)]


def map_items(items, transform):
    """Applies a function to each item, or looks up a key in each item. Returns the results as a list.

    >>> map_items([1, 2, 3], lambda n: n * n)
    [1, 4, 9]
    >>> map_items([{"city": "Oslo"}, {"city": "Rome"}], "city")
    ['Oslo', 'Rome']
    """
    return list(map(_getter(transform), items))


def sort_by(items, key, reverse=False):
    """Returns the items sorted by a key. The sort is stable. Items whose key is None are last, even with `reverse`.

    >>> sort_by([{"n": 2}, {"n": None}, {"n": 1}], "n", reverse=True)
    [{'n': 2}, {'n': 1}, {'n': None}]
    """
    get = _getter(key)
    keyed = [(get(item), item) for item in items]
    try:
        ordered = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=reverse)
    except TypeError as error:
        raise TypeError(f"{error}; use a key with comparable values, e.g. `lambda item: str(…)`") from None
    return [item for _, item in ordered] + [item for value, item in keyed if value is None]


def unique(items, key=None):
    """Returns the items without duplicates, compared by value or by key. Values can be lists and dicts.

    >>> unique([1, 2, 2, 3, 1])
    [1, 2, 3]
    >>> unique([{"id": 1, "n": "a"}, {"id": 1, "n": "b"}], key="id")
    [{'id': 1, 'n': 'a'}]
    """
    get = (lambda item: item) if key is None else _getter(key)
    seen, kept = set(), []
    for item in items:
        value = _frozen(get(item))
        if value not in seen:
            seen.add(value)
            kept.append(item)
    return kept


def _frozen(value):
    """Converts a value to a hashable one. Results are equal if and only if the values are equal."""
    if isinstance(value, dict):
        return dict, frozenset((name, _frozen(entry)) for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return list if isinstance(value, list) else tuple, tuple(map(_frozen, value))
    return frozenset(value) if isinstance(value, set) else value


def chunk(items, size):
    """Splits the items into lists of `size` items. The last list can be shorter.

    >>> chunk(range(5), 2)
    [[0, 1], [2, 3], [4]]
    """
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"size must be an integer of at least 1, not {size!r}")
    items = list(items)
    return [items[start : start + size] for start in range(0, len(items), size)]
