"""Checks the input of an execution."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

from . import _check
from ._backend import Input, Listener
from .types import SourceKind


def _input(
    source: str,
    name: str | None,
    kind: SourceKind | None,
    stdin: str | bytes | None,
    context: Any,
    timeout_ms: int | None,
    on_stdout: Callable[[str], object] | None,
    on_stderr: Callable[[str], object] | None,
    token: Any,
) -> Input:
    """Checks the input of an execution. The common cases come first, because every execution calls this function."""
    if type(source) is not str or not source.isascii():
        source = _check.of("source", str, source)
    if name is not None:
        name = _check.of("name", str, name)
    if kind is not None and kind not in ("detect", "script", "module"):
        raise TypeError(f'kind must be "detect", "script" or "module", not {kind!r}')
    if timeout_ms is not None:
        _check.whole("timeout_ms", timeout_ms)
    return (
        source,
        name,
        kind,
        None if stdin is None else _check.contents("stdin", stdin),
        None if context is None else _check.as_json("context", context),
        timeout_ms,
        listener_of(on_stdout, on_stderr),
        token,
    )


def listener_of(
    on_stdout: Callable[[str], object] | None, on_stderr: Callable[[str], object] | None
) -> Listener | None:
    """Checks the listeners, and combines them into one."""
    if on_stdout is None and on_stderr is None:
        return None
    return _listener(_check.callback("on_stdout", on_stdout), _check.callback("on_stderr", on_stderr))


def _listener(on_stdout: Callable[[str], object] | None, on_stderr: Callable[[str], object] | None) -> Listener:
    """Returns a listener that decodes each stream separately: a character can be split between two chunks."""
    decoder = codecs.getincrementaldecoder("utf-8")
    streams = {False: (on_stdout, decoder("replace")), True: (on_stderr, decoder("replace"))}

    def listener(is_stderr: bool, written: bytes) -> None:
        on_text, decoder = streams[is_stderr]
        if on_text is not None and (text := decoder.decode(written)):
            on_text(text)

    return listener
