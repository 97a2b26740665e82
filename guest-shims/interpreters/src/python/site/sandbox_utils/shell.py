"""The commands of a shell."""

import os
import shutil
import stat
import time

from sandbox_utils.files import copy_tree, move, remove_tree
from sandbox_utils.paths import inside, make_directories, path_of, paths_of, read_text, removable, write_text


def ls(path="/app", all=False, long=False):
    """The names in a directory, sorted; those that begin with a dot only with `all`.

    With `long` a list of dicts with `name`, `size` in bytes, `type` ("file", "directory", "link"), `modified` (UTC) and
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
    """The text of files, one after the other.

    >>> print(cat("/app/data/a.csv", "/app/data/2024/c.csv"), end="")
    name,age
    Ann,31
    c
    """
    if not files:
        raise TypeError("cat wants files: cat('a.txt', 'b.txt')")
    return "".join(read_text(path) for each in files for path in paths_of(each))


def touch(file):
    """Makes an empty file, or sets the time of one that is there to now.

    >>> touch("/app/done")
    >>> ls("/app/done", long=True)[0]["size"]
    0
    """
    name = path_of(file)
    with open(name, "ab"):
        pass
    os.utime(name)


def mkdir(path, parents=True):
    """Makes a directory, and with `parents` those that it is in. One that is there is left alone.

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
    """Removes a file, with `recursive` a directory with all that is in it; with `force` it need not be there.

    A link is removed, and not what it leads to. The workspace itself stays.

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
            f"`{name}` is a directory: rm({name!r}, recursive=True) removes it with all that is in it"
        )


def cp(src, dst, recursive=False):
    """Copies a file, with `recursive` a directory; into `dst` if that is a directory.

    >>> cp("/app/log.txt", "/app/data")
    >>> ls("/app/data")
    ['2024', 'a.csv', 'log.txt']
    """
    source, target = path_of(src), path_of(dst)
    if os.path.isdir(source):
        if not recursive:
            raise IsADirectoryError(f"`{source}` is a directory: cp({source!r}, {target!r}, recursive=True) copies it")
        return copy_tree(source, inside(target, source))
    shutil.copy2(source, inside(target, source))


def mv(src, dst):
    """Moves or renames a file or a directory; into `dst` if that is a directory. A file that is there is replaced.

    >>> mv("/app/log.txt", "/app/data/old.txt")
    >>> ls("/app/data")
    ['2024', 'a.csv', 'old.txt']
    """
    source = removable(src)
    os.lstat(source)
    move(source, path_of(dst))


def echo(text="", file=None, append=False):
    """Prints text; or writes it into a file, with `append` to its end. A line end is added.

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
