"""Adapts the standard library to WASI: streams, imports from the workspace, asyncio, files, and stacks without the
driver."""

def open_output(descriptor, name, errors):
    raw = io.FileIO(descriptor, "wb", closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)
    stream.mode = "w"
    return stream


def open_input():
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    stream = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors="strict")
    stream.mode = "r"
    return stream


out = sys.stdout = sys.__stdout__ = open_output(1, "<stdout>", "strict")
err = sys.stderr = sys.__stderr__ = open_output(2, "<stderr>", "backslashreplace")
sys.stdin = sys.__stdin__ = open_input()


def restore_streams():
    """Restores standard streams that a script replaced, closed, detached or deleted. Never raises."""
    global out, err
    try:
        for name in "stdout", "stderr":
            try:
                getattr(sys, name).flush()  # the script's own wrapper may buffer text
            except BaseException:
                pass
        sys.stdout, sys.stderr = out, err  # finalizing the script's wrapper may close the underlying stream
        try:
            out.flush()
        except BaseException:
            out = sys.stdout = sys.__stdout__ = open_output(1, "<stdout>", "strict")
        try:
            err.flush()
        except BaseException:
            err = sys.stderr = sys.__stderr__ = open_output(2, "<stderr>", "backslashreplace")
    except BaseException:
        pass  # out of memory; tried again after the next script


# --- importing from the workspace -----------------------------------------------------------------


class WorkspaceFinder(machinery.FileFinder):
    """Lists its directory for each search. FileFinder relies on the directory's modification time, which does not
    change under a fixed clock, and would miss a module that was just written."""

    def find_spec(self, fullname, target=None):
        self._path_mtime = -1
        return super().find_spec(fullname, target)


is_directory = importlib._bootstrap_external._path_isdir


@functools.wraps(machinery.FileFinder.path_hook())
def workspace_hook(path):
    finder = {SITE: PackageFinder, WORKSPACE: FirstFinder}.get(path)
    if finder is None:
        # Rejects files, so that `zipimport` can try to open them as archives.
        if not path.startswith(WORKSPACE + "/") or not is_directory(path):
            raise ImportError("only directories in the workspace are supported", path=path)
        finder = PartFinder if path.startswith(SITE + "/") else WorkspaceFinder
    return finder(
        path,
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


# --- asyncio without a socket pair ----------------------------------------------------------------


class Selector(selectors.DefaultSelector):
    # Waits for replies of the host's tools, sleeps if none are due, and raises if no event can ever occur.

    def select(self, timeout=None):
        if self.get_map():
            return super().select(timeout)
        if pending and await_reply(timeout):
            return []
        if timeout is None:
            raise RuntimeError("deadlock: all asyncio tasks are waiting, and no event can wake them")
        if timeout > 0:
            time.sleep(timeout)
        return []


def without_processes(name="start"):
    """Returns a function that raises an error, in place of one that needs another process. Each use needs a separate
    function, because `replace` renames it."""

    def no_processes(*args, **kwargs):
        raise OSError(58, "the sandbox has no processes")

    no_processes.__name__ = no_processes.__qualname__ = name
    return no_processes


async def no_addresses(self, *args, **kwargs):
    raise OSError(58, "the sandbox has no network")


async def no_names(self, *args, **kwargs):
    raise OSError(58, "the sandbox has no network")


replace(asyncio.base_events.BaseEventLoop, "getaddrinfo", no_addresses)
replace(asyncio.base_events.BaseEventLoop, "getnameinfo", no_names)
replace(asyncio.unix_events._UnixSelectorEventLoop, "_make_subprocess_transport", without_processes())
# The self-pipe lets another thread or a signal wake an event loop. WASI has neither.
for _name in "_make_self_pipe", "_close_self_pipe", "_write_to_self":
    replace(asyncio.selector_events.BaseSelectorEventLoop, _name, lambda self: None)
functools.update_wrapper(Selector.select, selectors.DefaultSelector.select)
functools.update_wrapper(Selector, selectors.DefaultSelector, updated=())
selectors.DefaultSelector = Selector


# --- no searches outside the sandbox --------------------------------------------------------------

# These modules search for files and programs of a real machine. Here, the search would fail and count as an attempt to
# escape.
mimetypes.knownfiles.clear()
uuid._GETTERS = []
zoneinfo.reset_tzpath(to=())


# --- descriptors and space ------------------------------------------------------------------------

_open, _fstat, _read, _write, _close, _rename = os.open, os.fstat, os.read, os.write, os.close, os.rename
_statvfs_result = os.statvfs_result
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


def open_file(path, flags, mode=0o777, *, dir_fd=None):
    # Unlike on other systems, `O_RDONLY` is not zero in WASI. Scripts often leave it out.
    return _open(path, flags if flags & _ACCESS else flags | os.O_RDONLY, mode, dir_fd=dir_fd)


replace(os, "open", open_file)
if _open in os.supports_dir_fd:
    os.supports_dir_fd.add(os.open)


def dup(fd, /):
    """Return a duplicate of a file descriptor. It has its own file position, initially that of `fd`."""
    _fstat(fd)
    path = f"/dev/fd/{fd}"
    for flags in os.O_RDWR, os.O_WRONLY:
        try:
            return _open(path, flags)
        except PermissionError:
            pass
        except FileNotFoundError:  # the older build does not use the host's descriptor numbers
            raise OSError(58, "descriptors cannot be duplicated in this runtime; open the file by name again") from None
    return _open(path, os.O_RDONLY)


def dup2(fd, fd2, inheritable=True):
    """Duplicate a file descriptor to the number `fd2`. As with `dup`, the duplicate has its own file position."""
    _fstat(fd)
    if fd != fd2:
        new = dup(fd)
        try:
            _rename(f"/dev/fd/{new}", f"/dev/fd/{fd2}")
        except BaseException:
            _close(new)
            raise
    return fd2


def space():
    device = _open("/dev/glovebox/space", os.O_RDONLY)
    try:
        return [int(number) for number in _read(device, 200).split()]
    finally:
        _close(device)


def statvfs(path):
    """Perform a statvfs system call on the given path. Returns the quota of the files and its unused part."""
    os.stat(path)
    size, used, files, there = space()
    block = 4096
    free, rest = max(size - used, 0) // block, max(files - there, 0)
    return _statvfs_result((block, block, size // block, free, free, files, rest, rest, 0, 255))


def disk_usage(path):
    """Return disk usage statistics about the given path, as a tuple of `total`, `used` and `free` bytes."""
    os.stat(path)
    size, used, _, _ = space()
    return shutil._ntuple_diskusage(size, used, max(size - used, 0))


os.dup = dup
os.dup2 = dup2
os.statvfs = os.fstatvfs = statvfs
shutil.disk_usage = disk_usage
if not hasattr(shutil, "_ntuple_diskusage"):
    shutil._ntuple_diskusage = collections.namedtuple("usage", "total used free", module="shutil")
    shutil.__all__.append("disk_usage")
for _function, _module in (dup, "os"), (dup2, "os"), (statvfs, "os"), (disk_usage, "shutil"):
    _function.__module__ = _module


# --- users ----------------------------------------------------------------------------------------


def getuid():
    """Return the current process's user id."""
    return 0  # the owner of all files in `os.stat`


def getgid():
    """Return the current process's group id."""
    return 0


os.getuid, os.getgid, os.geteuid, os.getegid = getuid, getgid, getuid, getgid
getuid.__module__ = getgid.__module__ = "os"


# --- modes and owners of files --------------------------------------------------------------------

_chmod, _stat = os.chmod, os.stat


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    # The C library's version changes nothing, and succeeds even if the file does not exist.
    _stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    _chmod(path, mode)


replace(os, "chmod", chmod)


def chown(path, uid, gid, *, dir_fd=None, follow_symlinks=True):
    """Change the owner and group id of a file. The sandbox does not store them."""
    _stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


def lchown(path, uid, gid):
    """Change the owner and group id of a file without following symbolic links. The sandbox does not store them."""
    _stat(path, follow_symlinks=False)


# `tarfile` calls these for user 0.
os.chown, os.lchown = chown, lchown
chown.__module__ = lchown.__module__ = "os"


# --- stacks without the driver --------------------------------------------------------------------

_walk_stack, _outer_frames = traceback.walk_stack, inspect.getouterframes


def walk_stack(f):
    for frame, line in _walk_stack(f or sys._getframe().f_back.f_back.f_back.f_back):
        if frame.f_globals is not globals():
            yield frame, line


def getouterframes(frame, context=1):
    return [info for info in _outer_frames(frame, context) if info.frame.f_globals is not globals()]


replace(traceback, "walk_stack", walk_stack)
replace(inspect, "getouterframes", getouterframes)


# --- warnings that do not name the driver ---------------------------------------------------------

_show_warning, _frame = warnings._showwarnmsg, sys._getframe
_NO_FRAME = ("<sys>", 0) if sys.version_info >= (3, 13) else ("sys", 1)  # as in CPython's Python/_warnings.c


def show_warning(msg):
    if msg.filename == DRIVER_NAME:
        msg.filename, msg.lineno = calling_line(_frame(1))
    return _show_warning(msg)


def calling_line(frame):
    """Returns the file name and the line of the script that called the driver, or of the statement whose value the
    driver dropped."""
    is_inside = False
    while frame is not None:
        if frame.f_globals is globals():
            is_inside = True
            ended = frame.f_locals.get("ended") if frame.f_code is perform.__code__ else None
            if ended is not None:
                return ended.co_filename, next(line for *_, line in ended.co_lines() if line)
        elif is_inside and "importlib._bootstrap" not in frame.f_code.co_filename:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return _NO_FRAME


replace(warnings, "_showwarnmsg", show_warning)
