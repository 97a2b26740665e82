"""Trees of files. All of it works through them with a list of its own, so that no depth is too deep."""

import os
import re
import shutil
from errno import EXDEV
from pathlib import Path

from sandbox_utils.paths import PACKAGES, inside, is_within, make_directories, path_of, removable


def entries(directory):
    """What is in a directory, by name. The packages of all are not among it unless it is theirs."""
    with os.scandir(directory) as found:
        listed = sorted(found, key=lambda entry: entry.name)
    return [entry for entry in listed if os.path.abspath(entry.path) != PACKAGES]


def _belongs(entry, root):
    """Whether it is no link, or one to a file in the directory."""
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
    """The files below a directory, one after the other, in order; those that `filter_func` wants.

    Links to directories are not followed, links to files only within the directory; installed packages are left out.

    >>> for file in walk("/app", lambda file: file.suffix == ".json"):
    ...     print(file, file.stat().st_size)
    /app/data/2024/b.json 9
    """
    found = _files(path_of(path))
    os.scandir(path).close()  # What is wrong with the path is said here, and not by the loop.
    return found if filter_func is None else filter(filter_func, found)


def find(pattern="*", path="/app", recursive=True, kind="file"):
    """A list of the paths below a directory whose name is like the pattern, sorted.

    The pattern has `*`, `?` and `[…]`. With a `/` it is about the path below the directory, where `**` is any number of
    directories. `kind` is "file", "dir" or "any".

    >>> find("*.csv", "/app/data")
    [PosixPath('/app/data/2024/c.csv'), PosixPath('/app/data/a.csv')]
    """
    if not isinstance(pattern, str):
        raise TypeError(f"the pattern is a string like '*.txt', not {type(pattern).__name__}")
    if kind not in ("file", "dir", "any"):
        raise ValueError(f"kind is 'file', 'dir' or 'any', not {kind!r}")
    root = path_of(path)
    if pattern.startswith("/") or pattern in (".", ".."):
        raise ValueError(f"the pattern comes first, and then where to look: find('*', {pattern!r})")
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
    """A pattern of names as a regular expression."""
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
    """A directory and what is in it, as text to be printed. Directories end with `/`, links show where they lead.

    >>> print(tree("/app", max_depth=2))
    /app
    ├── data/
    │   ├── 2024/
    │   └── a.csv
    ├── log.txt
    └── report.py
    """
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"max_depth is at least 1, or None for all, not {max_depth}")
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
    """Copies a directory with all that is in it. What `dst` has stays, or is replaced where the name is the same.

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
        raise ValueError(f"`{target}` is in `{source}`: a directory cannot be copied into itself")
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
    """Copies a file with its time, a link as a link."""
    if os.path.islink(source) and os.path.lexists(target):
        os.unlink(target)
    shutil.copy2(source, target, follow_symlinks=False)


def remove_tree(path, pattern=None):
    """Removes a directory with all that is in it; with a pattern, only the files below it whose name is like that.

    Links are removed, and not what they lead to. The workspace itself stays.

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
        raise NotADirectoryError(f"`{root}` is a link: rm({root!r}) removes it")
    if os.path.isfile(root):
        raise NotADirectoryError(f"`{root}` is a file: rm({root!r}) removes it")
    directories = [root]
    for directory in directories:  # which grows
        with os.scandir(directory) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    os.unlink(entry.path)
    for directory in reversed(directories):
        os.rmdir(directory)


def move(source, target):
    """Moves a file or a directory, into `target` if that is a directory; to another mount by copying."""
    target = inside(target, source)
    try:
        os.replace(source, target)
    except OSError as error:
        if os.path.isdir(source) and is_within(target, source):
            raise ValueError(f"`{target}` is in `{source}`: a directory cannot be moved into itself") from None
        if error.errno != EXDEV:
            raise
        if os.path.isdir(source) and not os.path.islink(source):
            copy_tree(source, target)
            remove_tree(source)
        else:
            copy_file(source, target)
            os.unlink(source)
