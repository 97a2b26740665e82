"""Lines of files."""

import os
import re
from collections import deque
from difflib import unified_diff
from itertools import islice

from sandbox_utils.files import walk
from sandbox_utils.paths import open_lines, path_of, paths_of


def _compiled(pattern, flags=0):
    if isinstance(pattern, re.Pattern):
        return pattern
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise ValueError(
            f"`{pattern}` is no regular expression: {error}; for the text itself: {re.escape(pattern)!r}"
        ) from None


def grep(pattern, files, regex=True, ignore_case=False):
    """The lines that match, as a list of `(file, line number, line)`.

    `pattern` is a regular expression, or plain text with `regex=False`; `files` is a file, a directory, which stands for all
    files below it, or a list of them.

    >>> grep(r"ERROR|FATAL", find("*.txt"))
    [('/app/log.txt', 2, 'ERROR disk full')]
    """
    if not regex and isinstance(pattern, str):
        pattern = re.escape(pattern)
    search = _compiled(pattern, re.IGNORECASE if ignore_case else 0).search
    matches = []
    for path in paths_of(files):
        for file in walk(path) if os.path.isdir(path) else [path]:
            with open_lines(file) as lines:
                for number, line in enumerate(lines, 1):
                    line = line.rstrip("\n")
                    if search(line):
                        matches.append((str(file), number, line))
    return matches


def sed(pattern, replacement, text, count=0):
    """The text with what the regular expression matches replaced; `count` is how often at most, 0 for always.

    The replacement is text with `\\1` for groups, or a function of the match. For a file: `sed(…, cat(file))`.

    >>> sed(r"foo(\\d+)", r"bar\\1", "foo1 foo22")
    'bar1 bar22'
    """
    if not isinstance(text, str):
        raise TypeError(
            f"sed changes text, not {type(text).__name__}: for a file, sed(pattern, replacement, cat(file))"
        )
    return _compiled(pattern).sub(replacement, text, count)


def _count(lines):
    if not isinstance(lines, int) or lines < 0:
        raise ValueError(f"lines is a whole number from 0 on, not {lines!r}")
    return lines


def head(file, lines=10):
    """The first lines of a file, as text.

    >>> print(head("/app/log.txt", lines=2), end="")
    INFO begin
    ERROR disk full
    """
    count = _count(lines)
    with open_lines(file) as text:
        return "".join(islice(text, count))


def tail(file, lines=10):
    """The last lines of a file, as text.

    >>> print(tail("/app/log.txt", lines=2), end="")
    ERROR disk full
    INFO end
    """
    count = _count(lines)
    with open_lines(file) as text:
        return "".join(deque(text, count))


def wc(file):
    """How many `lines` (line ends, as `wc` counts), `words`, `chars` and `bytes` a file has.

    >>> wc("/app/log.txt")
    {'lines': 3, 'words': 7, 'chars': 36, 'bytes': 36}
    """
    counts = {"lines": 0, "words": 0, "chars": 0, "bytes": os.stat(path_of(file)).st_size}
    with open(path_of(file), encoding="utf-8", errors="replace", newline="\n") as text:
        for line in text:
            counts["lines"] += line.endswith("\n")
            counts["words"] += len(line.split())
            counts["chars"] += len(line)
    return counts


def diff(file1, file2, context=3):
    """How two files differ, as a unified diff; empty where they do not.

    >>> print(diff("/app/data/2024/c.csv", "/app/report.py"), end="")
    --- /app/data/2024/c.csv
    +++ /app/report.py
    @@ -1 +1 @@
    -c
    +print("report")
    """
    with open_lines(file1) as old, open_lines(file2) as new:
        lines = unified_diff(list(old), list(new), path_of(file1), path_of(file2), n=_count(context))
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
