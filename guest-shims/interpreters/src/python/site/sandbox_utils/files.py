"""Functions for directory trees. They use no recursion, so that deep trees do not exceed the recursion limit."""

import os
import re
import shutil
from errno import EXDEV
from pathlib import Path

from sandbox_utils.paths import PACKAGES, inside, is_within, make_directories, path_of, removable


def entries(directory):
    """Returns the entries of a directory, sorted by name, without the directory of installed packages."""
    with os.scandir(directory) as found:
        listed = sorted(found, key=lambda entry: entry.name)
    return [entry for entry in listed if os.path.abspath(entry.path) != PACKAGES]


def _belongs(entry, root):
    """Returns `True` for an entry that is not a link, and for a link to a file within `root`."""
    return not entry.is_symlink() or (os.path.isfile(entry.path) and is_within(entry.path, root))


def _files(root):
    todo = entries(root)[::-1]
    while todo:
        entry = todo.pop()
        if entry.is_dir(follow_symlinks=False):
            todo.extend(entries(entry.path)[::-1])
        elif _belongs(entry, root):
            yield Path(entry.path)


def walk(path="/app", filter_func=None):
    """Iterates over the files below a directory, sorted by name. `filter_func` selects files.

    Does not follow links to directories or out of the directory, and skips installed packages.

    >>> for file in walk("/app", lambda file: file.suffix == ".json"):
    ...     print(file, file.stat().st_size)
    /app/data/2024/b.json 9
    """
    found = _files(path_of(path))
    os.scandir(path).close()  # raises for a wrong path now, not in the loop
    return found if filter_func is None else filter(filter_func, found)


def find(pattern="*", path="/app", recursive=True, kind="file"):
    """Returns a sorted list of the paths below a directory that match the pattern.

    The pattern can contain `*`, `?` and `[…]`. A pattern with `/` matches the path relative to the directory; `**`
    matches any number of directories. `kind` is "file", "dir" or "any".

    >>> find("*.csv", "/app/data")
    [PosixPath('/app/data/2024/c.csv'), PosixPath('/app/data/a.csv')]
    """
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a string like '*.txt', not {type(pattern).__name__}")
    if kind not in ("file", "dir", "any"):
        raise ValueError(f"kind must be 'file', 'dir' or 'any', not {kind!r}")
    root = path_of(path)
    if pattern.startswith("/") or pattern in (".", ".."):
        raise ValueError(f"the pattern is the first argument, the directory the second: find('*', {pattern!r})")
    matches = re.compile(_translated(pattern)).fullmatch
    whole = "/" in pattern
    found = []
    todo = [(root, "")]
    while todo:
        directory, below = todo.pop()
        for entry in entries(directory):
            name = below + entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_directory and recursive:
                todo.append((entry.path, name + "/"))
            if kind != "any" and is_directory != (kind == "dir"):
                continue
            if matches(name if whole else entry.name) and _belongs(entry, root):
                found.append(Path(entry.path))
    return sorted(found)


def _translated(pattern):
    """Translates a file name pattern into a regular expression."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}

    def expression(match):
        part = match[0]
        if part in parts:
            return parts[part]
        if len(part) > 1:
            body = part[1:-1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^").replace("&&", r"&\&")
            return f"[^/{body[1:]}]" if body.startswith("!") else f"[{body}]"
        return re.escape(part)

    return "(?s:" + re.sub(r"\*\*/|\*\*|[*?]|\[!?\]?[^\]/]*\]|.", expression, pattern, flags=re.DOTALL) + ")"


def tree(path="/app", max_depth=None):
    """Returns a directory tree as text. Directories end with `/`; links are shown with their targets.

    >>> print(tree("/app", max_depth=2))
    /app
    ├── data/
    │   ├── 2024/
    │   └── a.csv
    ├── log.txt
    └── report.py
    """
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"max_depth must be at least 1, or None for no limit, not {max_depth}")
    root = path_of(path)
    lines = [root]
    todo = [(entry, "", 1, not i) for i, entry in enumerate(entries(root)[::-1])]
    while todo:
        entry, before, depth, is_last = todo.pop()
        is_directory = entry.is_dir(follow_symlinks=False)
        mark = "/" if is_directory else f" -> {os.readlink(entry.path)}" if entry.is_symlink() else ""
        lines.append(f"{before}{'└── ' if is_last else '├── '}{entry.name}{mark}")
        if is_directory and (max_depth is None or depth < max_depth):
            below = before + ("    " if is_last else "│   ")
            todo.extend((next_entry, below, depth + 1, not i) for i, next_entry in enumerate(entries(entry.path)[::-1]))
    return "\n".join(lines)


def copy_tree(src, dst):
    """Copies a directory recursively. Existing files in `dst` are kept, unless the source has a file of the same name.

    Links are copied as links.

    >>> copy_tree("/app/data", "/app/backup")
    >>> find("*", "/app/backup", recursive=False)
    [PosixPath('/app/backup/a.csv')]
    """
    source, target = path_of(src), path_of(dst)
    if not os.path.isdir(source):
        os.scandir(source).close()
    real = os.path.realpath(target)
    if real == os.path.realpath(source) or is_within(target, source):
        raise ValueError(f"Cannot copy a directory '{source}' into itself '{target}'.")
    todo = [(source, target)]
    while todo:
        directory, made = todo.pop()
        make_directories(made)
        for entry in entries(directory):
            goal = os.path.join(made, entry.name)
            if entry.is_dir(follow_symlinks=False):
                todo.append((entry.path, goal))
            else:
                copy_file(entry.path, goal)


def copy_file(source, target):
    """Copies a file with its modification time, and a link as a link."""
    if os.path.islink(source) and os.path.lexists(target):
        os.unlink(target)
    shutil.copy2(source, target, follow_symlinks=False)


def remove_tree(path, pattern=None):
    """Removes a directory recursively. With a pattern, removes only the matching files below it.

    Links are removed, but not their targets. The workspace itself cannot be removed.

    >>> remove_tree("/app/data", pattern="*.csv")
    >>> find("*", "/app/data")
    [PosixPath('/app/data/2024/b.json')]
    >>> remove_tree("/app/data")
    """
    root = path_of(path)
    if pattern is not None:
        for file in find(pattern, root):
            os.unlink(file)
        return
    removable(root)
    if os.path.islink(root):
        raise NotADirectoryError(f"`{root}` is a symbolic link; remove it with rm({root!r})")
    if os.path.isfile(root):
        raise NotADirectoryError(f"`{root}` is a file; remove it with rm({root!r})")
    directories = [root]
    for directory in directories:  # grows in the loop
        with os.scandir(directory) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    os.unlink(entry.path)
    for directory in reversed(directories):
        os.rmdir(directory)


def move(source, target):
    """Moves a file or directory to `target`, or into `target` if that is a directory. Copies between mounts."""
    target = inside(target, source)
    try:
        os.replace(source, target)
    except OSError as error:
        if os.path.isdir(source) and is_within(target, source):
            raise ValueError(f"Cannot move a directory '{source}' into itself '{target}'.") from None
        if error.errno != EXDEV:
            raise
        if os.path.isdir(source) and not os.path.islink(source):
            copy_tree(source, target)
            remove_tree(source)
        else:
            copy_file(source, target)
            os.unlink(source)
