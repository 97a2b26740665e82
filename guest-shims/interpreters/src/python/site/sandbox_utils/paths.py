"""Path arguments and text files."""

import os

WORKSPACE = "/app"
# The read-only packages that all scripts share. Functions for directory trees omit them.
PACKAGES = "/app/site-packages"


def path_of(path):
    """Returns a path as a string."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected str or Path, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("expected str or Path, not bytes")
    if not text:
        raise ValueError("the path is empty; use '.' for the current directory")
    return text


def paths_of(paths):
    """Converts one path, or an iterable of paths, to a list of strings."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [path_of(paths)]
    return [path_of(path) for path in paths]


def removable(path):
    """Returns a path as a string. Raises an error for `.`, `..`, the workspace and its parent directories."""
    text = path_of(path)
    if os.path.basename(text.rstrip("/")) in (".", ".."):
        raise ValueError(f"cannot remove or move `{text}`: the path ends with `.` or `..`; use the directory's name")
    parent, name = os.path.split(os.path.abspath(text))
    real = os.path.join(os.path.realpath(parent), name)
    if f"{WORKSPACE}/".startswith(real.rstrip("/") + "/"):
        raise ValueError(f"cannot remove or move `{text}`: it is or contains the workspace; remove its entries by name")
    return text


def inside(directory, name):
    """Returns the target path of a copy or move: inside `directory` if it is a directory, else `directory` itself."""
    return os.path.join(directory, os.path.basename(name.rstrip("/"))) if os.path.isdir(directory) else directory


def is_within(path, directory):
    """Returns `True` if a path is within a directory. Resolves links in both."""
    return os.path.realpath(path).startswith(os.path.realpath(directory).rstrip("/") + "/")


def make_directories(path):
    """Creates a directory and its missing parents. Does nothing if the directory exists."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    for each in reversed(missing):
        os.mkdir(each)


def read_text(path):
    """Reads a UTF-8 file, with line endings unchanged."""
    text = path_of(path)
    try:
        with open(text, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"`{text}` is not UTF-8 at byte {error.start}; read bytes with open(…, 'rb')") from None


def open_lines(path):
    """Opens a file for reading lines. Invalid UTF-8 is replaced with `\N{REPLACEMENT CHARACTER}`."""
    return open(path_of(path), encoding="utf-8", errors="replace")


def write_text(path, text, append=False):
    with open(path_of(path), "a" if append else "w", encoding="utf-8", newline="") as file:
        file.write(text)
