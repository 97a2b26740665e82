"""The licences of third-party parts, as one text."""

from __future__ import annotations

from collections.abc import Iterable

from .inventory import Part

HEAD = """\
Third-party notices of Glovebox {version}

Glovebox itself is licensed under the Apache License 2.0 (LICENSE). It contains the works below, each under its own licence: crates, compiled
into the command, the native modules and the provider components; npm packages, in the server's page; interpreters and tools, as WebAssembly
and machine code; and Python packages for scripts. Not every artefact contains all of them.
"""
WHAT = {"crate": "crate", "interpreter": "interpreter", "tool": "tool", "python": "Python package", "npm": "npm package"}


def normal(text: str) -> str:
    """Normalizes line endings, trailing spaces and surrounding newlines for a comparison."""
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip("\n").split("\n"))


def notices(parts: Iterable[Part], version: str) -> str:
    """Returns a list of all parts, followed by every distinct text with its parts."""
    # Omit libraries, because the entry of their interpreter covers them.
    inside = [part for part in parts if part.is_inside and not part.is_ours and part.kind in WHAT]
    lines = [HEAD.format(version=version)]
    for part in inside:
        lines.append(f"{WHAT[part.kind]} {part.name} {part.version}: {part.licence}")
    texts: dict[str, list[str]] = {}
    for part in inside:
        for text in part.texts:
            texts.setdefault(normal(text), []).append(f"{part.name} {part.version}")
    for text, names in texts.items():
        lines += ["", "=" * 80, ", ".join(dict.fromkeys(names)), "=" * 80, "", text]
    return "\n".join(lines) + "\n"
