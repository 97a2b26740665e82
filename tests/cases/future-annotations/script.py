"""A module with a docstring."""
from __future__ import annotations


def f(x: int | NotThere) -> None: ...


print(f.__annotations__["x"])
