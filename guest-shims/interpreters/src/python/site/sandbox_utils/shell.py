"""Shell commands."""

import os
import shutil
import stat
import time

from sandbox_utils.files import copy_tree, move, remove_tree
from sandbox_utils.paths import inside, make_directories, path_of, paths_of, read_text, removable, write_text


def ls(path="/app", all=False, long=False):
    """Returns the sorted names in a directory. `all` includes names that start with a dot.

    With `long`, returns dicts with `name`, `size` in bytes, `type` ("file", "directory", "link"), `modified` (UTC) and
    `permissions`.

    >>> ls("/app/data")
    ['2024', 'a.csv']
    """
    where = path_of(path)
    if os.path.isdir(where):
        names = sorted(name for name in os.listdir(where) if all or not name.startswith("."))
        return [_details(os.path.join(where, name), name) for name in names] if long else names
    return [_details(where, where)] if long else [_details(where, where)["name"]]


def _details(path, name):
    found = os.lstat(path)
    kinds = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return {
        "name": name,
        "size": found.st_size,
        "type": kinds.get(stat.S_IFMT(found.st_mode), "file"),
        "modified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime)),
        "permissions": stat.filemode(found.st_mode),
    }


def cat(*files):
    """Returns the concatenated text of the files.

    >>> print(cat("/app/data/a.csv", "/app/data/2024/c.csv"), end="")
    name,age
    Ann,31
    c
    """
    if not files:
        raise TypeError("cat() requires at least one file: cat('a.txt', 'b.txt')")
    return "".join(read_text(path) for each in files for path in paths_of(each))


def touch(file):
    """Creates an empty file, or sets the modification time of an existing one to now.

    >>> touch("/app/done")
    >>> ls("/app/done", long=True)[0]["size"]
    0
    """
    name = path_of(file)
    with open(name, "ab"):
        pass
    os.utime(name)


def mkdir(path, parents=True):
    """Creates a directory. With `parents`, also creates missing parents. Does nothing if the directory exists.

    >>> mkdir("/app/out/2025")
    >>> ls("/app/out")
    ['2025']
    """
    name = path_of(path)
    if parents:
        make_directories(name)
    elif not os.path.isdir(name):
        os.mkdir(name)


def rm(path, recursive=False, force=False):
    """Removes a file. With `recursive`, also removes directories. With `force`, ignores a missing file.

    Removes a link, but not its target. The workspace itself cannot be removed.

    >>> rm("/app/log.txt")
    >>> rm("/app/data", recursive=True)
    """
    name = removable(path)
    if force and not os.path.lexists(name):
        return
    if not os.path.isdir(name) or os.path.islink(name):
        os.unlink(name)
    elif recursive:
        remove_tree(name)
    else:
        raise IsADirectoryError(
            f"`{name}` is a directory; remove it and its contents with rm({name!r}, recursive=True)"
        )


def cp(src, dst, recursive=False):
    """Copies a file to `dst`, or into `dst` if that is a directory. With `recursive`, also copies directories.

    >>> cp("/app/log.txt", "/app/data")
    >>> ls("/app/data")
    ['2024', 'a.csv', 'log.txt']
    """
    source, target = path_of(src), path_of(dst)
    if os.path.isdir(source):
        if not recursive:
            raise IsADirectoryError(
                f"`{source}` is a directory; copy it with cp({source!r}, {target!r}, recursive=True)"
            )
        return copy_tree(source, inside(target, source))
    shutil.copy2(source, inside(target, source))


def mv(src, dst):
    """Moves a file or directory to `dst`, or into `dst` if that is a directory. Replaces an existing file.

    >>> mv("/app/log.txt", "/app/data/old.txt")
    >>> ls("/app/data")
    ['2024', 'a.csv', 'old.txt']
    """
    source = removable(src)
    os.lstat(source)
    move(source, path_of(dst))


def echo(text="", file=None, append=False):
    """Prints text and a newline, or writes them to a file. With `append`, adds them at the end.

    >>> echo("done")
    done
    >>> echo("done", file="/app/log.txt", append=True)
    >>> tail("/app/log.txt", lines=1)
    'done\\n'
    """
    if file is None:
        print(text)
    else:
        write_text(file, f"{text}\n", append)
