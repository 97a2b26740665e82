"""A reader for the subset of YAML 1.2 that configuration files use.

Supported: block and flow mappings and sequences; plain, single-quoted and double-quoted scalars; `|` and `>` blocks;
comments; one document, with or without `---`. Scalars follow the core schema: null, true, false, integers and floats.
`yes` and dates are strings.

Unsupported: anchors, aliases, tags, directives, several documents, keys that are not scalars, multi-line plain and
quoted scalars. These and syntax errors raise a ValueError with the line number.
"""

import re

MOST_DEPTH = 100

_BLANKS = " \t"

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+").fullmatch
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+").fullmatch
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?").fullmatch
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)").fullmatch

_ESCAPES = dict(zip('0abtnvfre"/\\N_LP \t', '\0\a\b\t\n\v\f\r\x1b"/\\\x85\xa0\u2028\u2029 \t'))
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"').match
_SINGLE = re.compile(r"'((?:[^']|'')*)'").match
_COMMENT = re.compile(r"[ \t]*(?:[ \t]#.*)?").fullmatch
_HEADER = re.compile(r"([|>])(?:([1-9])([-+]?)|([-+])([1-9]?))?[ \t]*(?:[ \t]#.*)?").fullmatch
_KEY_END = re.compile(r":(?=[ \t]|$)|[ \t]#").search
_FLOW_END = re.compile(r":(?=[ \t,\[\]{}]|$)|[ \t]#|[,\[\]{}]").search

_REFUSED = {
    "&": "anchors are unsupported; repeat the value where it is used",
    "*": "aliases are unsupported; repeat the value where it is used",
    "!": "tags are unsupported; remove the tag or quote the value",
    "%": "directives are unsupported; remove the directive or quote the value",
    "@": "a plain scalar cannot start with `@`; quote it",
    "`": "a plain scalar cannot start with a backtick; quote it",
    "|": "invalid block header: only `-`, `+` and a digit can follow `|` or `>`",
    ">": "invalid block header: only `-`, `+` and a digit can follow `|` or `>`",
    ",": "a plain scalar cannot start with `,`; quote it",
    "]": "unmatched `]`",
    "}": "unmatched `}`",
}


def yaml_load(text):
    """Parses a YAML text into dicts, lists, strings, numbers, booleans and None.

    Supports block and flow mappings and sequences, quoted and plain scalars, `|` and `>` blocks, and comments. Anchors,
    aliases, tags and several documents raise a ValueError with the line number.

    >>> yaml_load("name: Ann\\nskills:\\n  - {python: 3}\\n")
    {'name': 'Ann', 'skills': [{'python': 3}]}
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be str, not {type(text).__name__}")
    return _Reader(text).document()


def _is_item(text):
    return text == "-" or text.startswith(("- ", "-\t"))


class _Reader:
    def __init__(self, text):
        self.lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.at = 0
        self.depth = 0

    def fail(self, why, at=None):
        raise ValueError(f"line {(self.at if at is None else at) + 1}: {why}") from None

    def peek(self):
        """Returns the indentation and the rest of the next line with content, or None at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.lstrip(" ")
            said = text.strip(_BLANKS)
            if said and not said.startswith("#"):
                if text.startswith("\t"):
                    self.fail("tabs cannot be used for indentation; use spaces")
                indent = len(line) - len(text)
                if indent == 0 and re.match(r"(---|\.\.\.)(\s|$)", text):
                    return None
                return indent, text.rstrip(_BLANKS)
            self.at += 1
        return None

    def document(self):
        if self.peek() is None and self.marker("---"):
            self.at += 1
        value = None if self.peek() is None else self.node(-1)
        if self.peek() is not None:
            self.fail("unexpected content after the value; check the indentation")
        if self.marker("..."):
            self.at += 1
        if self.peek() is not None or self.at < len(self.lines):
            self.fail("a second document starts here; load one document at a time")
        return value

    def marker(self, mark):
        if self.at < len(self.lines) and self.lines[self.at].startswith(mark):
            if not _COMMENT(self.lines[self.at][3:]):
                self.fail(f"only a comment can follow `{mark}`")
            return True
        return False

    def deeper(self):
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.fail(f"nested more than {MOST_DEPTH} levels deep")

    def node(self, parent):
        """Reads the value that starts on the next line. `parent` is the indentation of the enclosing node."""
        indent, text = self.peek()
        if _is_item(text):
            return self.sequence(indent)
        if self.key_of(text) is not None:
            return self.mapping(indent)
        return self.scalar(text, parent)

    def sequence(self, indent):
        items = []
        self.deeper()
        while (found := self.peek()) and found[0] == indent and _is_item(found[1]):
            rest = found[1][1:].lstrip(_BLANKS)
            if rest and not rest.startswith("#"):
                # The text after the dash starts a nested block at its own column.
                self.lines[self.at] = " " * (indent + len(found[1]) - len(rest)) + rest
                items.append(self.node(indent))
            else:
                self.at += 1
                after = self.peek()
                items.append(self.node(indent) if after and after[0] > indent else None)
        self.settled(indent)
        return items

    def mapping(self, indent):
        entries = {}
        self.deeper()
        while (found := self.peek()) and found[0] == indent:
            text = found[1]
            if _is_item(text):
                self.fail("a list item cannot be a sibling of a key; indent it, or add `:` to the key above")
            ended = self.key_of(text)
            if ended is None:
                self.fail("expected `key: value`")
            key, rest = ended
            if key in entries:
                self.fail(f"duplicate key {key!r}")
            entries[key] = self.value(rest, indent)
        self.settled(indent)
        return entries

    def settled(self, indent):
        self.depth -= 1
        found = self.peek()
        if found and found[0] > indent:
            self.fail("unexpected indentation; keep a scalar on one line, or use `|` or `>`")

    def value(self, rest, indent):
        """Reads the value of a key. `rest` is the part on the key's line."""
        if rest and not rest.startswith("#"):
            return self.scalar(rest, indent)
        self.at += 1
        found = self.peek()
        if found and (found[0] > indent or found[0] == indent and _is_item(found[1])):
            return self.node(indent)
        return None

    def key_of(self, text):
        """Returns the key at the start of a line and the text after its colon, or None if there is no key."""
        if text == "?" or text.startswith(("? ", "?\t")):
            self.fail("explicit keys with `?` are unsupported; use `key: value`")
        if text[0] in "\"'":
            match = (_DOUBLE if text[0] == '"' else _SINGLE)(text)
            if match is None or not (rest := text[match.end() :].lstrip(_BLANKS)).startswith(":"):
                return None
            if rest != ":" and rest[1] not in " \t":
                return None
            return self.quoted(match), rest[1:].strip(_BLANKS)
        if text[0] in "[{":
            return None
        found = _KEY_END(text)
        if found is None or found[0] != ":":
            return None
        key, rest = self.bare(text, _KEY_END)
        return key, rest[1:].strip(_BLANKS)

    def scalar(self, text, parent):
        """Reads a one-line scalar, a block or a flow value. Blocks and flow values can continue on further lines."""
        if text[0] in "|>" and (header := _HEADER(text)):
            return self.block(header, parent)
        if text[0] in "[{":
            value, rest = self.flow(text)
        elif text[0] in "\"'":
            value, rest = self.quotation(text)
        else:
            value, rest = self.bare(text, _KEY_END)
            if rest.startswith(":"):
                self.fail("a plain scalar cannot contain `: `; quote the value")
        if not _COMMENT(rest):
            self.fail(f"unexpected `{rest.strip(_BLANKS)}` after the value")
        self.at += 1
        return value

    def quotation(self, text):
        match = (_DOUBLE if text[0] == '"' else _SINGLE)(text)
        if match is None:
            self.fail(f"the {text[0]} is not closed on its line; for several lines, use `\\n` in double quotes, or `|`")
        return self.quoted(match), text[match.end() :]

    def bare(self, text, end):
        """Returns the plain scalar at the start of the text, and the rest of the text."""
        if text[0] in _REFUSED:
            self.fail(_REFUSED[text[0]])
        if text[0] in "-?:" and text[1:2] in ("", " ", "\t"):
            self.fail(f"a plain scalar cannot start with `{text[0]}` and a space; quote it")
        found = end(text)
        stop = len(text) if found is None else found.start()
        return self.plain(text[:stop].rstrip(_BLANKS)), text[stop:]

    def quoted(self, match):
        if match[0][0] == "'":
            return match[1].replace("''", "'")

        def escaped(found):
            digits = found[1] or found[2] or found[3]
            if digits:
                code = int(digits, 16)
                return chr(code) if code <= 0x10FFFF else self.fail(f"invalid code point `{found[0]}`")
            if found[4] not in _ESCAPES:
                self.fail(f"unknown escape `{found[0]}`; write `\\\\` for a backslash, or use single quotes")
            return _ESCAPES[found[4]]

        # As in JSON, two escapes can form a surrogate pair.
        return _PAIR.sub(
            lambda pair: chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00),
            _ESCAPE.sub(escaped, match[1]),
        )

    def plain(self, text):
        """Converts a plain scalar according to the core schema."""
        if text in _NULLS:
            return None
        if text in _BOOLS:
            return _BOOLS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _INT(text):
            try:
                return int(text)
            except ValueError:
                self.fail("the number has too many digits; quote it")
        if _BASED(text):
            return int(text, 0)
        if _FLOAT(text):
            return float(text)
        special = _SPECIAL(text)
        return float(text.replace(".", "")) if special else text

    def block(self, header, parent):
        """Reads a `|` or `>` block."""
        folded = header[1] == ">"
        digit, chomp = header[2] or header[5], header[3] or header[4]
        self.at += 1
        begin = self.at
        base = max(parent, 0) + int(digit) if digit else None
        lines = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            indent = len(line) - len(line.lstrip(" "))
            if indent == len(line) and (base is None or indent <= base):
                lines.append("")
            else:
                if base is None:
                    if indent <= parent:
                        break
                    base = indent
                if indent < base or indent == 0 and re.match(r"(---|\.\.\.)(\s|$)", line):
                    break
                lines.append(line[base:])
            self.at += 1
        if self.at == len(self.lines) and lines and lines[-1] == "":
            lines.pop()  # the empty string after the last newline is not a line
        count = len(lines)
        while count and lines[count - 1] == "":
            count -= 1
        if any(len(self.lines[begin + i]) > (base or 0) for i in range(len(lines)) if lines[i] == "" and i < count):
            self.fail("a blank line is indented more than the first line of the block", begin)
        text = _folded(lines[:count]) if folded else "\n".join(lines[:count])
        if chomp == "-":
            return text
        if chomp == "+":
            return text + "\n" * (len(lines) - count + (count > 0))
        return text + "\n" * (count > 0)

    def flow(self, text):
        """Reads a flow sequence or mapping. Returns the value and the rest of its last line."""
        self.deeper()
        is_map = text[0] == "{"
        close = "}" if is_map else "]"
        made = {} if is_map else []
        text = self.skip(text[1:])
        while not text.startswith(close):
            key, text = self.flow_value(text)
            text = self.skip(text)
            if text.startswith(":"):
                if not is_map:
                    self.fail("a pair in a list requires braces: `[{key: value}]`")
                text = self.skip(text[1:])
                value, text = (None, text) if text[0] in ",}" else self.flow_value(text)
                text = self.skip(text)
            else:
                value = None
            if not is_map:
                made.append(key)
            elif isinstance(key, (dict, list)):
                self.fail("a key must be a scalar, not a list or mapping")
            elif key in made:
                self.fail(f"duplicate key {key!r}")
            else:
                made[key] = value
            if text.startswith(","):
                text = self.skip(text[1:])
            elif not text.startswith(close):
                self.fail(f"expected `,` or `{close}` before `{text}`")
        self.depth -= 1
        return made, text[1:]

    def flow_value(self, text):
        if text[0] in "[{":
            return self.flow(text)
        if text[0] in "\"'":
            return self.quotation(text)
        if text[0] in "?-" and (len(text) == 1 or text[1] in " \t,[]{}") or text[0] == "#":
            self.fail(f"unexpected `{text[0]}` within brackets; quote it")
        return self.bare(text, _FLOW_END)

    def skip(self, text):
        """Skips blanks, comments and newlines within brackets. Returns the rest of the line."""
        while True:
            rest = text.lstrip(_BLANKS)
            if rest and (rest == text or not rest.startswith("#")):
                return rest
            self.at += 1
            if self.at == len(self.lines):
                self.fail("brackets are not closed", self.at - 1)
            if re.match(r"(---|\.\.\.)(\s|$)", self.lines[self.at]):
                self.fail("brackets are not closed before the end of the document")
            text = " " + self.lines[self.at].rstrip(_BLANKS)


def _folded(lines):
    """Folds the lines of a `>` block: joins adjacent lines with a space, and turns blank lines into newlines."""
    parts = []
    blank = 0
    before = None  # whether the previous text line was indented: its newlines are kept
    for line in lines:
        if line == "":
            blank += 1
            continue
        kept = line[0] in " \t"
        if before is None:
            parts.append("\n" * blank)
        elif kept or before:
            parts.append("\n" * (blank + 1))
        else:
            parts.append("\n" * blank or " ")
        parts.append(line)
        blank, before = 0, kept
    return "".join(parts)
