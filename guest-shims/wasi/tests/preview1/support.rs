//! A fake host, and a guest that calls it.

use std::collections::VecDeque;

use glovebox_vfs::{Access, RootId, Vfs, VfsLimits};
use glovebox_wasi::{Errno, Fault, Host, Mount, Stop, Stream, Wasi, WasiConfig};

// Addresses in guest memory: results of 4 and 8 bytes, structures, paths, and arrays.
pub(crate) const OUT: u32 = 0x100;
pub(crate) const STAT: u32 = 0x200;
pub(crate) const PATH: u32 = 0x1000;
pub(crate) const OTHER_PATH: u32 = 0x3000;
pub(crate) const IOVS: u32 = 0x5000;
pub(crate) const DATA: u32 = 0x10000;

pub(crate) const ALL_RIGHTS: u64 = (1 << 28) - 1;
/// All rights that apply to a file: the rights for `fd_*` except `fd_readdir`, and for polling.
pub(crate) const FILE_RIGHTS: u64 = 0b1000_1110_0000_0000_0001_1111_1111;
pub(crate) const READ: u64 = ALL_RIGHTS & !(1 | 1 << 6 | 1 << 8 | 1 << 22);
pub(crate) const CREAT: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCL: u32 = 4;
pub(crate) const TRUNC: u32 = 8;
pub(crate) const APPEND: u32 = 1;
pub(crate) const APP: u32 = 3;

/// A host whose memory, fuel and time are plain values.
pub(crate) struct FakeHost {
    pub(crate) memory: Vec<u8>,
    pub(crate) fuel: u64,
    pub(crate) charged: u64,
    pub(crate) realtime_ns: u64,
    pub(crate) monotonic_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) slept: Vec<u64>,
    pub(crate) streamed: Vec<(Stream, Vec<u8>)>,
    /// Messages to the displays device that the host has received.
    pub(crate) displays: Vec<Vec<u8>>,
    /// Messages that the guest has written to the tools device.
    pub(crate) messages: Vec<Vec<u8>>,
    /// Replies that the guest has yet to read from the tools device. When none are left, reads return nothing.
    pub(crate) replies: VecDeque<Option<Vec<u8>>>,
    /// Bytes moved and random bytes generated since the last charge: work that has not been paid for.
    pub(crate) moved: u64,
}

impl FakeHost {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            memory: vec![0; memory_bytes],
            fuel: u64::MAX,
            charged: 0,
            realtime_ns: 1_700_000_000_000_000_000,
            monotonic_ns: 5_000,
            deadline_ns: 10_000_000_000,
            slept: Vec::new(),
            streamed: Vec::new(),
            displays: Vec::new(),
            messages: Vec::new(),
            replies: VecDeque::new(),
            moved: 0,
        }
    }

    fn range(&self, at: u32, len: usize) -> Result<std::ops::Range<usize>, Fault> {
        let start = usize::try_from(at).unwrap();
        let end = start.checked_add(len).ok_or(Fault)?;
        if end > self.memory.len() { Err(Fault) } else { Ok(start..end) }
    }
}

impl Host for FakeHost {
    fn memory_len(&self) -> u64 {
        u64::try_from(self.memory.len()).unwrap()
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        let range = self.range(at, into.len())?;
        self.moved += u64::try_from(into.len()).unwrap();
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        let range = self.range(at, from.len())?;
        self.moved += u64::try_from(from.len()).unwrap();
        self.memory[range].copy_from_slice(from);
        Ok(())
    }

    fn charge(&mut self, fuel: u64) -> Result<(), Stop> {
        self.charged = self.charged.saturating_add(fuel);
        match self.fuel.checked_sub(fuel) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err(Stop::OutOfFuel)
            }
        }
    }

    fn realtime_ns(&mut self) -> u64 {
        self.realtime_ns
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.monotonic_ns
    }

    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop> {
        if duration >= self.deadline_ns {
            return Err(Stop::Deadline);
        }
        self.slept.push(duration);
        self.monotonic_ns += duration;
        self.realtime_ns += duration;
        Ok(())
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        into.fill(0xA5);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.streamed.push((stream, bytes.to_vec()));
    }

    fn display(&mut self, message: &[u8]) {
        self.displays.push(message.to_vec());
    }

    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        self.messages.push(message.to_vec());
        if message == b"stop" { Err(Stop::Cancelled) } else { Ok(()) }
    }

    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        match self.replies.pop_front() {
            Some(Some(reply)) if reply == b"stop" => Err(Stop::Deadline),
            reply => Ok(reply.flatten()),
        }
    }
}

/// A guest with `/app` at descriptor 3.
pub(crate) struct Guest {
    pub(crate) wasi: Wasi,
    pub(crate) host: FakeHost,
    pub(crate) app: RootId,
}

/// Calls a WASI function and returns `Result<(), Errno>`. The test fails if the guest is unwound.
macro_rules! call {
    ($guest:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let guest = &mut $guest;
        let errno = guest.wasi.$name(&mut guest.host, $($arg),*).unwrap();
        if errno == glovebox_wasi::Errno::Success { Ok(()) } else { Err(errno) }
    }};
}
pub(crate) use call;

impl Guest {
    pub(crate) fn new() -> Self {
        Self::with(VfsLimits::default(), |_| ())
    }

    pub(crate) fn with(limits: VfsLimits, change: impl FnOnce(&mut WasiConfig)) -> Self {
        let mut vfs = Vfs::new(limits);
        let app = vfs.add_root(Access::ReadWrite);
        let mut config = WasiConfig::new(vfs);
        config.mounts.push(Mount::new("/app", app));
        change(&mut config);
        Self { wasi: Wasi::new(config).unwrap(), host: FakeHost::new(1 << 20), app }
    }

    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        self.host.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn get(&self, at: u32, len: u32) -> Vec<u8> {
        let at = usize::try_from(at).unwrap();
        self.host.memory[at..at + usize::try_from(len).unwrap()].to_vec()
    }

    pub(crate) fn u32_at(&self, at: u32) -> u32 {
        u32::from_le_bytes(self.get(at, 4).try_into().unwrap())
    }

    pub(crate) fn u64_at(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.get(at, 8).try_into().unwrap())
    }

    /// Writes a path to memory and returns its length.
    pub(crate) fn path(&mut self, path: &str) -> u32 {
        self.put(PATH, path.as_bytes());
        u32::try_from(path.len()).unwrap()
    }

    pub(crate) fn other_path(&mut self, path: &str) -> u32 {
        self.put(OTHER_PATH, path.as_bytes());
        u32::try_from(path.len()).unwrap()
    }

    /// Writes an array of `(address, length)` pairs and returns the number of pairs.
    pub(crate) fn iovs(&mut self, iovs: &[(u32, u32)]) -> u32 {
        let bytes: Vec<u8> = iovs.iter().flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()].concat()).collect();
        self.put(IOVS, &bytes);
        u32::try_from(iovs.len()).unwrap()
    }

    pub(crate) fn open_at(
        &mut self,
        fd: u32,
        path: &str,
        oflags: u32,
        rights: u64,
        fdflags: u32,
    ) -> Result<u32, Errno> {
        let len = self.path(path);
        call!(*self, path_open(fd, 1, PATH, len, oflags, rights, rights, fdflags, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub(crate) fn open(&mut self, path: &str, oflags: u32) -> Result<u32, Errno> {
        self.open_at(APP, path, oflags, ALL_RIGHTS, 0)
    }

    pub(crate) fn open_to_read(&mut self, path: &str) -> Result<u32, Errno> {
        self.open_at(APP, path, 0, READ, 0)
    }

    pub(crate) fn write(&mut self, fd: u32, bytes: &[u8]) -> Result<u32, Errno> {
        self.put(DATA, bytes);
        let count = self.iovs(&[(DATA, u32::try_from(bytes.len()).unwrap())]);
        call!(*self, fd_write(fd, IOVS, count, OUT))?;
        Ok(self.u32_at(OUT))
    }

    pub(crate) fn read(&mut self, fd: u32, len: u32) -> Result<Vec<u8>, Errno> {
        let count = self.iovs(&[(DATA, len)]);
        call!(*self, fd_read(fd, IOVS, count, OUT))?;
        Ok(self.get(DATA, self.u32_at(OUT)))
    }

    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        let fd = self.open(path, CREAT | TRUNC).unwrap();
        assert_eq!(self.write(fd, content), Ok(u32::try_from(content.len()).unwrap()));
        call!(*self, fd_close(fd)).unwrap();
    }

    pub(crate) fn content(&mut self, path: &str) -> Vec<u8> {
        let fd = self.open_to_read(path).unwrap();
        let content = self.read(fd, 0x40000).unwrap();
        call!(*self, fd_close(fd)).unwrap();
        content
    }

    pub(crate) fn make_dir(&mut self, path: &str) -> Result<(), Errno> {
        let len = self.path(path);
        call!(*self, path_create_directory(APP, PATH, len))
    }

    /// Returns `(filetype, inode, size)` of a path, after following links.
    pub(crate) fn stat(&mut self, fd: u32, path: &str) -> Result<(u8, u64, u64), Errno> {
        let len = self.path(path);
        call!(*self, path_filestat_get(fd, 1, PATH, len, STAT))?;
        Ok((self.get(STAT + 16, 1)[0], self.u64_at(STAT + 8), self.u64_at(STAT + 32)))
    }

    /// Returns the names in a directory, read through a buffer of `buf_len` bytes, as the C library does.
    pub(crate) fn names(&mut self, fd: u32, buf_len: u32) -> Vec<String> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            call!(*self, fd_readdir(fd, DATA, buf_len, cookie, OUT)).unwrap();
            let used = self.u32_at(OUT);
            assert!(used <= buf_len);
            let mut at = 0;
            while at + 24 <= used {
                let name_len = self.u32_at(DATA + at + 16);
                if at + 24 + name_len > used {
                    break;
                }
                cookie = self.u64_at(DATA + at);
                names.push(String::from_utf8(self.get(DATA + at + 24, name_len)).unwrap());
                at += 24 + name_len;
            }
            if used < buf_len {
                return names;
            }
            assert!(at > 0, "a buffer of {buf_len} bytes holds no entry");
        }
    }
}
