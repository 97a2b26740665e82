"""The part of YAML 1.2 that configuration files are written in, read.

There are: mappings and sequences as blocks and in flow style, plain, single- and double-quoted scalars, `|` and `>` blocks,
comments, one document with or without `---`. Scalars mean what the core schema says: null, true, false, whole and other
numbers; `yes` is a string, and so is a date.

There are not: anchors, aliases, tags, directives, several documents, keys that are not scalars, plain and quoted scalars on
several lines. These are refused with a ValueError that names the line, as is everything that is not well-formed.
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
    "&": "anchors are not read: write the value out where it is used",
    "*": "aliases are not read: write the value out where it is used",
    "!": "tags are not read: leave it out, or quote the text",
    "%": "directives are not read: quote the text if it is text",
    "@": "a plain scalar cannot begin with `@`: quote it",
    "`": "a plain scalar cannot begin with a backtick: quote it",
    "|": "this is no header of a block: `|` or `>`, then nothing but `-`, `+` and a digit",
    ">": "this is no header of a block: `|` or `>`, then nothing but `-`, `+` and a digit",
    ",": "a plain scalar cannot begin with `,`: quote it",
    "]": "there is no `[` for this `]`",
    "}": "there is no `{` for this `}`",
}


def yaml_load(text):
    """The value that a YAML text is: dicts, lists, strings, numbers, booleans and None.

    There are mappings and sequences as blocks and in flow style, quoted and plain scalars, `|` and `>` blocks, comments.
    There are not anchors, aliases, tags and several documents: a ValueError names the line.

    >>> yaml_load("name: Ann\\nskills:\\n  - {python: 3}\\n")
    {'name': 'Ann', 'skills': [{'python': 3}]}
    """
    if not isinstance(text, str):
        raise TypeError(f"YAML is text, not {type(text).__name__}")
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
        """The next line that says something, as its indentation and the rest, or None at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.lstrip(" ")
            said = text.strip(_BLANKS)
            if said and not said.startswith("#"):
                if text.startswith("\t"):
                    self.fail("a tab does not indent: use spaces")
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
            self.fail("it belongs to nothing above: look at its indentation")
        if self.marker("..."):
            self.at += 1
        if self.peek() is not None or self.at < len(self.lines):
            self.fail("a second document begins: give one at a time")
        return value

    def marker(self, mark):
        if self.at < len(self.lines) and self.lines[self.at].startswith(mark):
            if not _COMMENT(self.lines[self.at][3:]):
                self.fail(f"nothing but a comment may follow `{mark}`")
            return True
        return False

    def deeper(self):
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.fail(f"more than {MOST_DEPTH} levels")

    def node(self, parent):
        """The value that begins at the next line, which belongs to something indented by `parent`."""
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
                # What stands behind the dash is a block of its own that begins there.
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
                self.fail("an item of a list stands among keys: indent it, or the key above lacks its `:`")
            ended = self.key_of(text)
            if ended is None:
                self.fail("this is no `key: value`")
            key, rest = ended
            if key in entries:
                self.fail(f"the key {key!r} is there twice")
            entries[key] = self.value(rest, indent)
        self.settled(indent)
        return entries

    def settled(self, indent):
        self.depth -= 1
        found = self.peek()
        if found and found[0] > indent:
            self.fail("it is indented more than what it follows: keep a scalar on its line, or use `|` or `>`")

    def value(self, rest, indent):
        """The value of a key, of which `rest` is on its line."""
        if rest and not rest.startswith("#"):
            return self.scalar(rest, indent)
        self.at += 1
        found = self.peek()
        if found and (found[0] > indent or found[0] == indent and _is_item(found[1])):
            return self.node(indent)
        return None

    def key_of(self, text):
        """A key at the beginning, and what follows its colon; None where there is none."""
        if text == "?" or text.startswith(("? ", "?\t")):
            self.fail("keys are scalars, without `?`")
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
        """A value on one line, a block, or one in flow style, which goes on."""
        if text[0] in "|>" and (header := _HEADER(text)):
            return self.block(header, parent)
        if text[0] in "[{":
            value, rest = self.flow(text)
        elif text[0] in "\"'":
            value, rest = self.quotation(text)
        else:
            value, rest = self.bare(text, _KEY_END)
            if rest.startswith(":"):
                self.fail("a second `: ` on the line: quote the value")
        if not _COMMENT(rest):
            self.fail(f"`{rest.strip(_BLANKS)}` follows the value")
        self.at += 1
        return value

    def quotation(self, text):
        match = (_DOUBLE if text[0] == '"' else _SINGLE)(text)
        if match is None:
            self.fail(f"the {text[0]} is not closed on its line: for several lines use `\\n` in double quotes, or `|`")
        return self.quoted(match), text[match.end() :]

    def bare(self, text, end):
        """A plain scalar at the beginning, and what follows it."""
        if text[0] in _REFUSED:
            self.fail(_REFUSED[text[0]])
        if text[0] in "-?:" and text[1:2] in ("", " ", "\t"):
            self.fail(f"a plain scalar cannot begin with `{text[0]}` alone: quote it")
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
                return chr(code) if code <= 0x10FFFF else self.fail(f"there is no character {found[0]}")
            if found[4] not in _ESCAPES:
                self.fail(f"there is no escape `{found[0]}`: a backslash is `\\\\`, or use single quotes")
            return _ESCAPES[found[4]]

        # As in JSON, two escapes may stand for one character.
        return _PAIR.sub(
            lambda pair: chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00),
            _ESCAPE.sub(escaped, match[1]),
        )

    def plain(self, text):
        """What the core schema says a plain scalar is."""
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
                self.fail("a number of too many digits: quote it")
        if _BASED(text):
            return int(text, 0)
        if _FLOAT(text):
            return float(text)
        special = _SPECIAL(text)
        return float(text.replace(".", "")) if special else text

    def block(self, header, parent):
        """A `|` or `>` block."""
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
            lines.pop()  # What follows the last line end is no line.
        count = len(lines)
        while count and lines[count - 1] == "":
            count -= 1
        if any(len(self.lines[begin + i]) > (base or 0) for i in range(len(lines)) if lines[i] == "" and i < count):
            self.fail("blank lines before the block's first are indented more than it", begin)
        text = _folded(lines[:count]) if folded else "\n".join(lines[:count])
        if chomp == "-":
            return text
        if chomp == "+":
            return text + "\n" * (len(lines) - count + (count > 0))
        return text + "\n" * (count > 0)

    def flow(self, text):
        """A list or mapping in flow style, and what follows it on its last line."""
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
                    self.fail("a pair in a list wants braces: `[{key: value}]`")
                text = self.skip(text[1:])
                value, text = (None, text) if text[0] in ",}" else self.flow_value(text)
                text = self.skip(text)
            else:
                value = None
            if not is_map:
                made.append(key)
            elif isinstance(key, (dict, list)):
                self.fail("keys are scalars")
            elif key in made:
                self.fail(f"the key {key!r} is there twice")
            else:
                made[key] = value
            if text.startswith(","):
                text = self.skip(text[1:])
            elif not text.startswith(close):
                self.fail(f"`,` or `{close}` is missing before `{text}`")
        self.depth -= 1
        return made, text[1:]

    def flow_value(self, text):
        if text[0] in "[{":
            return self.flow(text)
        if text[0] in "\"'":
            return self.quotation(text)
        if text[0] in "?-" and (len(text) == 1 or text[1] in " \t,[]{}") or text[0] == "#":
            self.fail(f"`{text[0]}` means nothing within brackets: quote it")
        return self.bare(text, _FLOW_END)

    def skip(self, text):
        """What comes next within brackets, over blanks, comments and line ends."""
        while True:
            rest = text.lstrip(_BLANKS)
            if rest and (rest == text or not rest.startswith("#")):
                return rest
            self.at += 1
            if self.at == len(self.lines):
                self.fail("brackets are not closed", self.at - 1)
            if re.match(r"(---|\.\.\.)(\s|$)", self.lines[self.at]):
                self.fail("brackets are not closed before the document's end")
            text = " " + self.lines[self.at].rstrip(_BLANKS)


def _folded(lines):
    """Lines of a `>` block as text: a line end between two lines is a blank, empty lines between them are line ends."""
    parts = []
    blank = 0
    before = None  # whether the line of text before was an indented one, which keeps its line ends
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
