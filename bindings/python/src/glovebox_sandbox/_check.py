"""Argument checks. A wrong type is a `TypeError` that names the argument. A number out of range, or text that UTF-8
cannot encode, is a `ValueError`. A value that JSON cannot represent is a `TypeError`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def wrong(name: str, wanted: str, value: object) -> TypeError:
    """Returns the error for an argument of the wrong type."""
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def of(name: str, kind: type[T], value: object) -> T:
    """Checks the type of a value. `True` and `False` are not numbers, and text must not contain lone surrogates."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise wrong(name, kind.__name__, value)
    text: object = value
    if isinstance(text, str) and not text.isascii():
        encoded(name, text)
    return value


def encoded(name: str, text: str) -> bytes:
    """Encodes text as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} contains a lone surrogate at {error.start}, which UTF-8 cannot encode") from None


def whole(name: str, value: object, maximum: int = 2**64 - 1) -> int:
    """Checks for an integer from 0 to `maximum`."""
    number = of(name, int, value)
    if not 0 <= number <= maximum:
        raise ValueError(f"{name} must be a number from 0 to {maximum}, not {number}")
    return number


def optional(name: str, kind: type[T], value: object) -> T | None:
    """Like `of`, but also accepts `None`."""
    return None if value is None else of(name, kind, value)


def contents(name: str, value: object) -> bytes:
    """Accepts bytes, or text to encode as UTF-8."""
    if isinstance(value, str):
        return encoded(name, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise wrong(name, "str or bytes", value)


def path(name: str, value: object) -> str:
    """Accepts a host path as text or as `os.PathLike`."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(name, "str or os.PathLike", value)
    plain: object = os.fspath(value)
    return of(name, str, plain)


def mapping(name: str, value: object, each: Callable[[str, Any], T]) -> dict[str, T]:
    """Checks for a mapping with text keys, and converts each value with `each`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(name, "a mapping", value)
    return {of(f"a key of {name}", str, key): each(f"{name}[{key!r}]", one) for key, one in value.items()}


def sequence(name: str, value: object, each: Callable[[str, Any], T]) -> list[T]:
    """Checks for a sequence, and converts each item with `each`. Refuses text, which is a sequence of characters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise wrong(name, "a sequence", value)
    return [each(f"{name}[{index}]", one) for index, one in enumerate(value)]


def callback(name: str, value: object) -> Callable[..., Any] | None:
    """Checks for a callable, or `None`."""
    if value is not None and not callable(value):
        raise wrong(name, "callable", value)
    return value


def as_json(name: str, value: object) -> str:
    """Serializes a value as JSON text. Numeric keys become strings, as with `json.dumps`."""
    try:
        text = json.dumps(value, allow_nan=False)
        if "\\ud" in text:
            # The escape is a lone surrogate, which UTF-8 cannot encode, or half of a surrogate pair, which is valid.
            json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} must be a JSON value: {error}") from None
    return text
