"""`mmap` by copying, because WASI cannot map files."""


class Map:
    """mmap(fileno, length[, flags[, prot[, access[, offset[, trackfd]]]]])

    A copy of a file's bytes in memory. Changes are written to the file by `flush` and `close`, when the object is
    finalized and when the interpreter exits.
    """

    __slots__ = "__weakref__", "_at", "_bytes", "_file", "_offset", "_writable", "_written"

    def __init__(self, fileno, length, flags=1, prot=3, access=0, offset=0, *, trackfd=True):
        self._bytes = self._file = None
        if length < 0:
            raise OverflowError("memory mapped length must be positive")
        if offset < 0:
            raise OverflowError("memory mapped offset must be positive")
        if access:
            if flags != 1 or prot != 3:
                raise ValueError("mmap can't specify both access and flags, prot.")
            if access > 3 or access < 0:
                raise ValueError("mmap invalid access parameter.")
        else:
            access = 1 if not prot & 2 else 3 if flags & 2 else 2
        if offset % PAGE_BYTES or fileno == -1 and not length:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._writable, self._written, self._offset, self._at = access != 1, access == 2, offset, 0
        if fileno == -1:
            self._bytes, self._written = bytearray(length), False
            return
        size = _fstat(fileno).st_size
        if not length:
            if not size:
                raise ValueError("cannot mmap an empty file")
            length = size - offset
            if length <= 0:
                raise ValueError("mmap offset is greater than file size")
        elif size - offset < length:
            raise ValueError("mmap length is greater than file size")
        copy = dup(fileno)
        try:
            try:
                self._file = io.FileIO(copy, "r+b" if self._written else "rb")
            except BaseException:
                _close(copy)
                raise
            if self._written and not _is_open_for_writing(copy):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._bytes = data = bytearray(length)
            self._file.seek(offset)
            with memoryview(data) as view:
                at = 0
                while at < length:
                    count = self._file.readinto(view[at:])
                    if not count:
                        break
                    at += count
        except BaseException:
            self._bytes = None
            if self._file is not None:
                self._file.close()
            raise
        if self._written:
            maps.add(self)

    def _data(self):
        if self._bytes is None:
            raise ValueError("mmap closed or invalid")
        return self._bytes

    def _changing(self):
        data = self._data()
        if not self._writable:
            raise TypeError("mmap can't modify a readonly memory map.")
        return data

    def __buffer__(self, flags):
        view = memoryview(self._data())
        if self._writable:
            return view
        if flags & 1:
            raise BufferError("Object is not writable.")
        return view.toreadonly()

    def __len__(self):
        return len(self._data())

    def __iter__(self):
        return (bytes((byte,)) for byte in self._data())

    def __getitem__(self, index):
        data = self._data()
        if isinstance(index, slice):
            return bytes(data[index])
        try:
            return data[index]
        except IndexError:
            raise IndexError("mmap index out of range") from None

    def __setitem__(self, index, value):
        data = self._changing()
        if not isinstance(index, slice):
            try:
                data[index] = value
            except IndexError:
                raise IndexError("mmap index out of range") from None
            return
        with memoryview(value) as view:
            if view.nbytes != len(range(*index.indices(len(data)))):
                raise IndexError("mmap slice assignment is wrong size")
            with memoryview(data) as target:
                target[index] = view.cast("B")

    def __delitem__(self, index):
        raise TypeError("mmap object doesn't support item deletion")

    def __enter__(self):
        self._data()
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        try:
            if self._bytes is not None and self._file is not None:
                self._write_back()
                self._file.close()
        except Exception:
            pass

    def __repr__(self):
        if self._bytes is None:
            return "<mmap.mmap closed=True>"
        access = "ACCESS_READ" if not self._writable else "ACCESS_WRITE" if self._written else "ACCESS_COPY"
        if self._file is None:
            access = "ACCESS_DEFAULT"
        return f"<mmap.mmap closed=False, access={access}, length={len(self._bytes)}, pos={self._at}, offset={self._offset}>"

    @property
    def closed(self):
        return self._bytes is None

    def close(self):
        if self._bytes is None:
            return
        try:
            self._bytes.append(0)  # fails while a buffer is exported
            self._bytes.pop()
        except BufferError:
            raise BufferError("cannot close exported pointers exist") from None
        try:
            self._write_back()
        finally:
            self._bytes = None
            maps.discard(self)
            if self._file is not None:
                self._file.close()

    def _write_back(self, start=0, stop=None):
        """Writes the chunks of a shared, writable map that differ from the file. Does nothing for other maps."""
        if not self._written:
            return
        file = self._file
        with memoryview(self._bytes) as view:
            stop = len(view) if stop is None else stop
            for at in range(start, stop, CHUNK_BYTES):
                part = view[at : min(at + CHUNK_BYTES, stop)]
                file.seek(self._offset + at)
                if file.read(len(part)) != part:
                    file.seek(self._offset + at)
                    done = 0
                    while done < len(part):
                        done += file.write(part[done:])

    def flush(self, offset=0, size=None, *, flags=0):
        length = len(self._data())
        size = length - offset if size is None else size
        if offset < 0 or size < 0 or length - offset < size:
            raise ValueError("flush values out of range")
        if offset % PAGE_BYTES:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._write_back(offset, offset + size)

    def size(self):
        self._data()
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return _fstat(self._file.fileno()).st_size

    def resize(self, newsize, /):
        data = self._data()
        if self._file is not None and not self._written:
            raise TypeError("mmap can't resize a readonly or copy-on-write memory map.")
        if newsize < 0:
            raise ValueError("new size out of range")
        try:
            if newsize < len(data):
                del data[newsize:]
            else:
                data.extend(bytes(newsize - len(data)))
        except BufferError:
            raise BufferError("mmap can't resize with extant pointers exported.") from None
        if self._file is not None:
            self._file.truncate(self._offset + newsize)

    def move(self, dest, src, count, /):
        data = self._changing()
        if dest < 0 or src < 0 or count < 0 or len(data) - dest < count or len(data) - src < count:
            raise ValueError("source, destination, or count out of range")
        with memoryview(data) as view:
            view[dest : dest + count] = view[src : src + count]

    def find(self, view, start=None, end=None, /):
        return self._data().find(view, self._at if start is None else start, end)

    def rfind(self, view, start=None, end=None, /):
        return self._data().rfind(view, self._at if start is None else start, end)

    def read(self, n=None, /):
        data = self._data()
        stop = len(data) if n is None or n < 0 else min(self._at + n, len(data))
        found = bytes(data[self._at : stop])
        self._at = max(stop, self._at)
        return found

    def readline(self):
        data = self._data()
        stop = data.find(b"\n", self._at) + 1 or len(data)
        found = bytes(data[self._at : stop])
        self._at = stop
        return found

    def read_byte(self):
        data = self._data()
        if self._at >= len(data):
            raise ValueError("read byte out of range")
        self._at += 1
        return data[self._at - 1]

    def write(self, bytes, /):
        data = self._changing()
        with memoryview(bytes) as view:
            count = view.nbytes
            if self._at + count > len(data):
                raise ValueError("data out of range")
            with memoryview(data) as target:
                target[self._at : self._at + count] = view.cast("B")
        self._at += count
        return count

    def write_byte(self, byte, /):
        data = self._changing()
        if self._at >= len(data):
            raise ValueError("write byte out of range")
        data[self._at] = byte
        self._at += 1

    def seek(self, pos, whence=0, /):
        length = len(self._data())
        if whence not in (0, 1, 2):
            raise ValueError("unknown seek type")
        pos += (0, self._at, length)[whence]
        if pos < 0 or pos > length:
            raise ValueError("seek out of range")
        self._at = pos
        return pos

    def tell(self):
        self._data()
        return self._at

    def seekable(self):
        return True

    def madvise(self, option, start=0, length=None, /):
        data = self._data()
        if start < 0 or start >= len(data):
            raise ValueError("madvise start out of bounds")
        if length is not None and length < 0:
            raise ValueError("madvise length invalid")


PAGE_BYTES = 4096
CHUNK_BYTES = 1 << 20
maps = weakref.WeakSet()  # the maps that write to files


def _is_open_for_writing(fd):
    try:
        _write(fd, b"")
    except OSError:
        return False
    return True


def write_maps():
    for each in list(maps):
        each._write_back()


def complete_mmap(module):
    atexit.register(write_maps)
    Map.__name__ = Map.__qualname__ = "mmap"
    Map.__module__ = "mmap"
    for each in vars(Map).values():
        if isinstance(each, types.FunctionType):
            each.__module__, each.__qualname__ = "mmap", f"mmap.{each.__name__}"
    vars(module).update(
        mmap=Map, error=OSError, PAGESIZE=PAGE_BYTES, ALLOCATIONGRANULARITY=PAGE_BYTES,
        ACCESS_DEFAULT=0, ACCESS_READ=1, ACCESS_WRITE=2, ACCESS_COPY=3, PROT_READ=1, PROT_WRITE=2, PROT_EXEC=4,
        MAP_SHARED=1, MAP_PRIVATE=2, MAP_ANON=32, MAP_ANONYMOUS=32, MAP_POPULATE=32768, MAP_NORESERVE=16384,
        MADV_NORMAL=0, MADV_RANDOM=1, MADV_SEQUENTIAL=2, MADV_WILLNEED=3, MADV_DONTNEED=4,
    )


late["mmap"] = complete_mmap
