"""A world that fits WASI: streams, imports from the workspace, asyncio, stacks without the driver."""

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
    """After a script replaced, closed, detached or deleted a standard stream. Never raises."""
    global out, err
    try:
        for name in "stdout", "stderr":
            try:
                getattr(sys, name).flush()  # a wrapper of the script's own may hold text
            except BaseException:
                pass
        sys.stdout, sys.stderr = out, err  # which may close what lay under the script's wrapper
        try:
            out.flush()
        except BaseException:
            out = sys.stdout = sys.__stdout__ = open_output(1, "<stdout>", "strict")
        try:
            err.flush()
        except BaseException:
            err = sys.stderr = sys.__stderr__ = open_output(2, "<stderr>", "backslashreplace")
    except BaseException:
        pass  # no memory for new ones; the next script gets another try


# --- importing from the workspace -----------------------------------------------------------------


class WorkspaceFinder(machinery.FileFinder):
    """Lists its directory anew for each search. FileFinder trusts the directory's modification time,
    which stands still under a fixed clock: a module written a moment ago would not be found."""

    def find_spec(self, fullname, target=None):
        self._path_mtime = -1
        return super().find_spec(fullname, target)


is_directory = importlib._bootstrap_external._path_isdir


@functools.wraps(machinery.FileFinder.path_hook())
def workspace_hook(path):
    finder = {SITE: PackageFinder, WORKSPACE: FirstFinder}.get(path)
    if finder is None:
        # Files may be archives, which `zipimport` reads, or scripts.
        if not path.startswith(WORKSPACE + "/") or not is_directory(path):
            raise ImportError("only directories of the workspace are searched here", path=path)
        finder = PartFinder if path.startswith(SITE + "/") else WorkspaceFinder
    return finder(
        path,
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


# --- asyncio without a socket pair ----------------------------------------------------------------


class Selector(selectors.DefaultSelector):
    # Waits for tools of the host, sleeps if there are none to wait for, and fails if no event can ever happen.

    def select(self, timeout=None):
        if self.get_map():
            return super().select(timeout)
        if pending and await_reply(timeout):
            return []
        if timeout is None:
            raise RuntimeError("deadlock: every asyncio task waits, and without threads or sockets nothing can wake one")
        if timeout > 0:
            time.sleep(timeout)
        return []


def no_processes(*args, **kwargs):
    raise OSError(58, "the sandbox has no processes")


async def no_addresses(self, *args, **kwargs):
    raise OSError(58, "the sandbox has no network")


async def no_names(self, *args, **kwargs):
    raise OSError(58, "the sandbox has no network")


replace(asyncio.base_events.BaseEventLoop, "getaddrinfo", no_addresses)
replace(asyncio.base_events.BaseEventLoop, "getnameinfo", no_names)
replace(asyncio.unix_events._UnixSelectorEventLoop, "_make_subprocess_transport", no_processes)
# The self-pipe lets another thread or a signal wake a loop; WASI has neither.
for _name in "_make_self_pipe", "_close_self_pipe", "_write_to_self":
    replace(asyncio.selector_events.BaseSelectorEventLoop, _name, lambda self: None)
functools.update_wrapper(Selector.select, selectors.DefaultSelector.select)
functools.update_wrapper(Selector, selectors.DefaultSelector, updated=())
selectors.DefaultSelector = Selector


# --- no looking outside ---------------------------------------------------------------------------

# These would look for files and programs of the machine, which do not exist here. Looking would count as an attempt to
# escape.
mimetypes.knownfiles.clear()
uuid._GETTERS = []
zoneinfo.reset_tzpath(to=())


# --- descriptors and space ------------------------------------------------------------------------

_open, _fstat, _read, _write, _close, _rename = os.open, os.fstat, os.read, os.write, os.close, os.rename
_statvfs_result = os.statvfs_result


def dup(fd, /):
    """Return a duplicate of a file descriptor. It has a position of its own, which begins where that of `fd` is."""
    _fstat(fd)
    path = f"/dev/fd/{fd}"
    for flags in os.O_RDWR, os.O_WRONLY:
        try:
            return _open(path, flags)
        except PermissionError:
            pass
        except FileNotFoundError:  # the older build has numbers of its own
            raise OSError(58, "a file has one descriptor here; open it again by its name") from None
    return _open(path, os.O_RDONLY)


def dup2(fd, fd2, inheritable=True):
    """Duplicate a file descriptor to the number `fd2`. The duplicate has a position of its own, as with `dup`."""
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
    """Perform a statvfs system call on the given path: the quota of the files, and what is left of it."""
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
    return 0  # as `os.stat` has it for all files


def getgid():
    """Return the current process's group id."""
    return 0


os.getuid, os.getgid, os.geteuid, os.getegid = getuid, getgid, getuid, getgid
getuid.__module__ = getgid.__module__ = "os"


# --- modes of files -------------------------------------------------------------------------------

_chmod, _stat = os.chmod, os.stat


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    # The C library's version changes nothing, and succeeds whether or not there is a file.
    _stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    _chmod(path, mode)


replace(os, "chmod", chmod)


# --- stacks without the driver --------------------------------------------------------------------

_walk_stack, _outer_frames, _find_source = traceback.walk_stack, inspect.getouterframes, inspect.findsource


def walk_stack(f):
    for frame, line in _walk_stack(f or sys._getframe().f_back.f_back.f_back.f_back):
        if frame.f_globals is not globals():
            yield frame, line


def getouterframes(frame, context=1):
    return [info for info in _outer_frames(frame, context) if info.frame.f_globals is not globals()]


def findsource(object):
    try:
        return _find_source(object)
    except OSError:
        if not inspect.getfile(object).startswith(SOURCES + "/"):
            raise
    raise OSError("could not get source code: this module of the library is bytecode without its source here")


replace(inspect, "findsource", findsource)
replace(traceback, "walk_stack", walk_stack)
replace(inspect, "getouterframes", getouterframes)
