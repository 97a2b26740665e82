"""Paths as scripts give them, and the text of files."""

import os

WORKSPACE = "/app"
# Shared by everybody and read-only: nothing that a script looks for among its own files.
PACKAGES = "/app/site-packages"


def path_of(path):
    """A path as a string."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path is a string or a Path, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("a path is a string or a Path, not bytes")
    if not text:
        raise ValueError("the path is empty: `.` is the current directory")
    return text


def paths_of(paths):
    """One path, or several, as strings."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [path_of(paths)]
    return [path_of(path) for path in paths]


def removable(path):
    """A path whose file or directory may go away: not the workspace, and nothing that the workspace is in."""
    text = path_of(path)
    if os.path.basename(text.rstrip("/")) in (".", ".."):
        raise ValueError(f"`{text}` says no name: give the name of what is to go")
    parent, name = os.path.split(os.path.abspath(text))
    real = os.path.join(os.path.realpath(parent), name)
    if f"{WORKSPACE}/".startswith(real.rstrip("/") + "/"):
        raise ValueError(f"`{text}` is the workspace or holds it, and that stays: remove what is in it by name")
    return text


def inside(directory, name):
    """Where something goes: into the directory, if there is one, or to that path itself."""
    return os.path.join(directory, os.path.basename(name.rstrip("/"))) if os.path.isdir(directory) else directory


def is_within(path, directory):
    """Whether what a path leads to is in a directory, both with links followed."""
    return os.path.realpath(path).startswith(os.path.realpath(directory).rstrip("/") + "/")


def make_directories(path):
    """Makes a directory and those that it is in; one that is there is left alone."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    for each in reversed(missing):
        os.mkdir(each)


def read_text(path):
    """The whole of a text file, line ends as they are."""
    text = path_of(path)
    try:
        with open(text, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"`{text}` is not UTF-8 at byte {error.start}: open(…, 'rb') reads bytes") from None


def open_lines(path):
    """A file for reading line by line; what is not UTF-8 is shown as `\N{REPLACEMENT CHARACTER}`."""
    return open(path_of(path), encoding="utf-8", errors="replace")


def write_text(path, text, append=False):
    with open(path_of(path), "a" if append else "w", encoding="utf-8", newline="") as file:
        file.write(text)
