"""A YAML writer. `yaml_reader` and other YAML readers read its output as the same values."""

import re

from sandbox_utils.yaml_reader import MOST_DEPTH

# Matches strings that need no quotes: every reader returns them as strings, even with YAML 1.1, where `no` is false.
_PLAIN = re.compile(
    r"(?!(?:null|true|false|yes|no|on|off|y|n)\Z)(?:[^\W\d]|/)(?:[\w ./@+()&*!?;,$=<>|%'~^-]|:(?=\S))*(?<! )\Z",
    re.IGNORECASE,
).match
_UNPRINTABLE = r"\x00-\x08\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff"
_ESCAPED = re.compile(rf'[{_UNPRINTABLE}"\\\n\t]')
# Matches text for a `|` block. The first line must not be indented, because readers derive the indentation from it.
_BLOCK = re.compile(rf"[^{_UNPRINTABLE} \t\n][^{_UNPRINTABLE}]*\n[^{_UNPRINTABLE}]*\Z").match
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def yaml_dump(value):
    """Converts a value to YAML: dicts and lists as blocks indented by two spaces, multi-line text as `|` blocks.

    >>> print(yaml_dump({"name": "Ann", "tags": ["a", "no"], "empty": []}), end="")
    name: Ann
    tags:
      - a
      - "no"
    empty: []
    """
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value, depth):
    """Returns the lines of a value. The caller indents them."""
    if depth == MOST_DEPTH and isinstance(value, (dict, list, tuple)):
        raise ValueError(f"the value is nested more than {MOST_DEPTH} levels deep, or contains itself")
    made = []
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            key, lines = _scalar(name), _lines(entry, depth + 1)
            if isinstance(entry, (dict, list, tuple)) and entry:
                made.append(f"{key}:")
                made.extend(_indented(lines))
            else:
                made.append(f"{key}: {lines[0]}")
                made.extend(lines[1:])
    elif isinstance(value, (list, tuple)) and value:
        for item in value:
            lines = _lines(item, depth + 1)
            made.append(f"- {lines[0]}")
            made.extend(lines[1:] if isinstance(item, str) else _indented(lines[1:]))
    elif isinstance(value, str) and _BLOCK(value):
        made.append("|-" if not value.endswith("\n") else "|+" if value.endswith("\n\n") else "|")
        made.extend(_indented(value.removesuffix("\n").split("\n")))
    else:
        made.append("{}" if value == {} else "[]" if isinstance(value, (list, tuple)) else _scalar(value))
    return made


def _indented(lines):
    return [f"  {line}" if line else "" for line in lines]


def _scalar(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if _PLAIN(value) else f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        text = float.__repr__(value)
        if text in ("inf", "-inf", "nan"):
            return text.replace("inf", ".inf").replace("nan", ".nan")
        return text if "." in text else text.replace("e", ".0e")
    what = type(value).__name__
    raise TypeError(
        f"cannot write {what} as YAML; use dicts, lists, str, int, float, bool and None, and no dicts or lists as keys"
    )


def _escape(match):
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
