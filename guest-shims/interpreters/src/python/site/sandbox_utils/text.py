"""Functions for text files."""

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
            f"invalid regular expression `{pattern}`: {error}; to match this text literally, use {re.escape(pattern)!r}"
        ) from None


def grep(pattern, files, regex=True, ignore_case=False):
    """Returns the matching lines as a list of `(file, line number, line)`.

    `pattern` is a regular expression, or literal text with `regex=False`. `files` is a file, a directory, or a list of
    them. A directory is searched recursively.

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
    """Replaces the matches of a regular expression in a text: at most `count` matches, or all with 0.

    The replacement is a string, with `\\1` for the first group, or a function of the match. To edit a file's text, use
    `sed(…, cat(file))`.

    >>> sed(r"foo(\\d+)", r"bar\\1", "foo1 foo22")
    'bar1 bar22'
    """
    if not isinstance(text, str):
        raise TypeError(
            f"text must be str, not {type(text).__name__}; for a file, use sed(pattern, replacement, cat(file))"
        )
    return _compiled(pattern).sub(replacement, text, count)


def _count(lines):
    if not isinstance(lines, int) or lines < 0:
        raise ValueError(f"lines must be a non-negative integer, not {lines!r}")
    return lines


def head(file, lines=10):
    """Returns the first lines of a file as text.

    >>> print(head("/app/log.txt", lines=2), end="")
    INFO begin
    ERROR disk full
    """
    count = _count(lines)
    with open_lines(file) as text:
        return "".join(islice(text, count))


def tail(file, lines=10):
    """Returns the last lines of a file as text.

    >>> print(tail("/app/log.txt", lines=2), end="")
    ERROR disk full
    INFO end
    """
    count = _count(lines)
    with open_lines(file) as text:
        return "".join(deque(text, count))


def wc(file):
    """Counts the `lines` (newlines, as `wc` does), `words`, `chars` and `bytes` of a file.

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
    """Compares two files. Returns a unified diff, or an empty string if the files are equal.

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
