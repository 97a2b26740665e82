"""Converts between the contract's types in `types` and the values of `wasmtime`.

`wasmtime` represents a component's values without named types. Records have the contract's names as attributes, and
enums are strings. A case of a variant is the bare value if its class identifies the case, and a `Variant` otherwise.
The annotations in `types` determine which form a value has.
"""

from __future__ import annotations

import dataclasses
import functools
import types as python_types
import typing
from typing import Any

from wasmtime.component import Record, Variant

from .. import types


def lower(hint: Any, value: Any) -> Any:
    """Converts a value for `wasmtime`."""
    shape = _shape(hint)
    return shape.lower(value)


def lift(hint: Any, value: Any) -> Any:
    """Converts a value from `wasmtime`."""
    shape = _shape(hint)
    return shape.lift(value)


def lift_result(ok: Any, value: Any) -> tuple[bool, Any]:
    """Returns `True` and the result of one of the contract's functions, or `False` and its error."""
    ok_shape, error = _shape(ok), _shape(types.SandboxError)
    if ok_shape.classes() & error.classes():
        return (value.tag == "ok", (ok_shape if value.tag == "ok" else error).lift(value.payload))
    if isinstance(value, Variant):
        return False, error.lift(value)
    return True, ok_shape.lift(value)


class _Shape:
    """The representation of a type's values."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def classes(self) -> frozenset[type]:
        """The classes that `wasmtime` uses to distinguish the type's cases from those of other types."""
        return frozenset({self.kind})

    def lower(self, value: Any) -> Any:
        if not isinstance(value, self.kind) or (self.kind is int and isinstance(value, bool)):
            raise TypeError(f"expected {self.kind.__name__}; got `{type(value).__name__}`")
        return value

    def lift(self, value: Any) -> Any:
        return value


class _Resource(_Shape):
    """A handle, which is passed unchanged."""

    def __init__(self) -> None:
        super().__init__(object)


class _Set(_Shape):
    def __init__(self) -> None:
        super().__init__(set)

    def lower(self, value: Any) -> Any:
        return set(value)

    def lift(self, value: Any) -> Any:
        return frozenset(value)


class _Enum(_Shape):
    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(str)
        self.names = names

    def lower(self, value: Any) -> Any:
        if value not in self.names:
            raise ValueError(f"expected one of {', '.join(self.names)}; got {value!r}")
        return value


class _List(_Shape):
    def __init__(self, element: _Shape) -> None:
        super().__init__(list)
        self.element = element

    def lower(self, value: Any) -> Any:
        return [self.element.lower(each) for each in super().lower(value)]

    def lift(self, value: Any) -> Any:
        return [self.element.lift(each) for each in value]


class _Tuple(_Shape):
    def __init__(self, elements: list[_Shape]) -> None:
        super().__init__(tuple)
        self.elements = elements

    def lower(self, value: Any) -> Any:
        return tuple(shape.lower(each) for shape, each in zip(self.elements, super().lower(value), strict=True))

    def lift(self, value: Any) -> Any:
        return tuple(shape.lift(each) for shape, each in zip(self.elements, value, strict=True))


class _Record(_Shape):
    def __init__(self, of: type) -> None:
        super().__init__(Record)
        self.of = of
        self.fields = [(name, name.replace("_", "-"), _shape(hint)) for name, hint in _hints(of)]

    def lower(self, value: Any) -> Any:
        if not isinstance(value, self.of):
            raise TypeError(f"expected {self.of.__name__}; got `{type(value).__name__}`")
        record = Record()
        for name, wit, shape in self.fields:
            try:
                lowered = shape.lower(getattr(value, name))
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            setattr(record, wit, lowered)
        return record

    def lift(self, value: Any) -> Any:
        return self.of(**{name: shape.lift(getattr(value, wit)) for name, wit, shape in self.fields})


class _Cases(_Shape):
    """A variant, an option or a result. Cases are tried in the order of `cases`."""

    def __init__(self, cases: list[tuple[str, _Shape | None]]) -> None:
        super().__init__(Variant)
        self.cases = cases
        seen: set[type] = set()
        self.is_tagged = False
        for _, shape in cases:
            classes = shape.classes() if shape else frozenset({object})
            self.is_tagged = self.is_tagged or bool(classes & seen)
            seen |= classes
        self.seen = frozenset(seen)

    def classes(self) -> frozenset[type]:
        return super().classes() if self.is_tagged else self.seen

    def give(self, tag: str, value: Any) -> Any:
        shape = dict(self.cases)[tag]
        payload = shape.lower(value) if shape else None
        return Variant(tag, payload) if self.is_tagged else payload

    def take(self, value: Any) -> tuple[str, Any]:
        if self.is_tagged:
            shape = dict(self.cases)[value.tag]
            return value.tag, shape.lift(value.payload) if shape else None
        for tag, shape in self.cases:
            if shape is None:
                if value is None:
                    return tag, None
            elif value is not None and any(isinstance(value, each) for each in shape.classes()):
                return tag, shape.lift(value)
        raise TypeError(f"expected one of {', '.join(tag for tag, _ in self.cases)}; got `{type(value).__name__}`")


class _Option(_Cases):
    def __init__(self, of: _Shape) -> None:
        super().__init__([("none", None), ("some", of)])

    def lower(self, value: Any) -> Any:
        return self.give("none" if value is None else "some", value)

    def lift(self, value: Any) -> Any:
        return self.take(value)[1]


class _Variant(_Cases):
    def __init__(self, classes: list[Any]) -> None:
        self.by_tag = {each.tag: each for each in classes}
        hints = {each.tag: _hints(each) for each in classes}
        super().__init__([(tag, _shape(fields[0][1]) if fields else None) for tag, fields in hints.items()])

    def lower(self, value: Any) -> Any:
        if not isinstance(value, tuple(self.by_tag.values())):
            names = ", ".join(each.__name__ for each in self.by_tag.values())
            raise TypeError(f"expected one of {names}; got `{type(value).__name__}`")
        return self.give(getattr(value, "tag"), getattr(value, "value", None))

    def lift(self, value: Any) -> Any:
        tag, payload = self.take(value)
        of, has_payload = self.by_tag[tag], dict(self.cases)[tag] is not None
        return of(payload) if has_payload else of()


class _Result(_Cases):
    """A result whose success and error types are distinct."""

    def __init__(self, ok: Any, error: Any) -> None:
        self.error = error
        super().__init__([("ok", _shape(ok)), ("err", _shape(error))])

    def lower(self, value: Any) -> Any:
        return self.give("err" if isinstance(value, self.error) else "ok", value)

    def lift(self, value: Any) -> Any:
        return self.take(value)[1]


def _hints(of: type) -> list[tuple[str, Any]]:
    # Resolves names only in the `types` module, not in the class: a field may have the same name as its type, such as
    # `bytes`.
    hints = typing.get_type_hints(of, vars(types), vars(types))
    return [(field.name, hints[field.name]) for field in dataclasses.fields(of)]


@functools.cache
def _shape(hint: Any) -> _Shape:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is object:
        return _Resource()
    if origin is typing.Literal:
        return _Enum(arguments)
    if origin is frozenset:
        return _Set()
    if origin is list:
        return _List(_shape(arguments[0]))
    if origin is tuple:
        return _Tuple([_shape(each) for each in arguments])
    if origin in (typing.Union, python_types.UnionType):
        some = tuple(each for each in arguments if each is not type(None))
        if len(some) < len(arguments):
            return _Option(_shape(typing.Union[some]))
        if all(hasattr(each, "tag") for each in some):
            return _Variant(list(some))
        return _Result(*some)
    if dataclasses.is_dataclass(hint):
        return _Record(typing.cast(type, hint))
    return _Shape(hint)
