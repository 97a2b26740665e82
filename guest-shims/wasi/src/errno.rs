//! Error numbers of WASI preview 1.

/// The values of `errno` in WASI preview 1 (`typenames.witx`) that the implementation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Errno {
    /// No error.
    Success = 0,
    /// Argument list too long.
    TooBig = 1,
    /// Permission denied.
    Acces = 2,
    /// Bad file descriptor.
    Badf = 8,
    /// Device or resource busy.
    Busy = 10,
    /// File exists.
    Exist = 20,
    /// Bad address: outside the guest's memory.
    Fault = 21,
    /// File too large.
    Fbig = 22,
    /// Illegal byte sequence.
    Ilseq = 25,
    /// Invalid argument.
    Inval = 28,
    /// Input or output error.
    Io = 29,
    /// Is a directory.
    IsDir = 31,
    /// Too many levels of symbolic links.
    Loop = 32,
    /// File descriptor too large, or too many open.
    Mfile = 33,
    /// Too many links.
    Mlink = 34,
    /// Message too large.
    MsgSize = 35,
    /// File name too long.
    NameTooLong = 37,
    /// No such file or directory.
    NoEnt = 44,
    /// Not enough memory.
    NoMem = 48,
    /// No space left on the device.
    NoSpc = 51,
    /// Not a directory.
    NotDir = 54,
    /// Directory not empty.
    NotEmpty = 55,
    /// Not a socket.
    NotSock = 57,
    /// Not supported.
    NotSup = 58,
    /// Value too large to be stored in its data type.
    Overflow = 61,
    /// Operation not permitted.
    Perm = 63,
    /// Read-only file system.
    Rofs = 69,
    /// Invalid seek.
    Spipe = 70,
    /// Link between devices.
    Xdev = 75,
    /// Capabilities insufficient.
    NotCapable = 76,
}

impl Errno {
    /// Returns the number that the guest sees.
    pub fn code(self) -> u16 {
        self as u16
    }
}

/// Converts an error to the result of a WebAssembly function that returns an `errno`.
impl From<Errno> for u32 {
    fn from(errno: Errno) -> Self {
        Self::from(errno.code())
    }
}

/// Discards the error for `proc_exit`, which has no result. `<$ret>::from(errno)` therefore works for every function
/// that [`wasi_preview1_functions!`](crate::wasi_preview1_functions) lists.
impl From<Errno> for () {
    fn from(_: Errno) -> Self {}
}
