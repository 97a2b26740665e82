//! Error numbers of WASI preview 1.

macro_rules! errnos {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// An `errno` of WASI preview 1 (`typenames.witx`), with its numeric value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Errno {
            $($(#[$meta])* $name = $value,)*
        }

        #[cfg(test)]
        pub(crate) const ALL: &[Errno] = &[$(Errno::$name),*];
    };
}

errnos! {
    /// No error.
    Success = 0,
    /// Argument list too long.
    TooBig = 1,
    /// Permission denied.
    Acces = 2,
    /// Address in use.
    AddrInUse = 3,
    /// Address not available.
    AddrNotAvail = 4,
    /// Address family not supported.
    AfNoSupport = 5,
    /// Resource unavailable, try again.
    Again = 6,
    /// Connection already in progress.
    Already = 7,
    /// Bad file descriptor.
    Badf = 8,
    /// Bad message.
    BadMsg = 9,
    /// Device or resource busy.
    Busy = 10,
    /// Operation cancelled.
    Canceled = 11,
    /// No child processes.
    Child = 12,
    /// Connection aborted.
    ConnAborted = 13,
    /// Connection refused.
    ConnRefused = 14,
    /// Connection reset.
    ConnReset = 15,
    /// Resource deadlock would occur.
    Deadlk = 16,
    /// Destination address required.
    DestAddrReq = 17,
    /// Argument out of the function's domain.
    Dom = 18,
    /// Disk quota exceeded.
    Dquot = 19,
    /// File exists.
    Exist = 20,
    /// Bad address: outside the guest's memory.
    Fault = 21,
    /// File too large.
    Fbig = 22,
    /// Host unreachable.
    HostUnreach = 23,
    /// Identifier removed.
    Idrm = 24,
    /// Illegal byte sequence.
    Ilseq = 25,
    /// Operation in progress.
    InProgress = 26,
    /// Interrupted function.
    Intr = 27,
    /// Invalid argument.
    Inval = 28,
    /// Input or output error.
    Io = 29,
    /// Socket is connected.
    IsConn = 30,
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
    /// Reserved.
    MultiHop = 36,
    /// File name too long.
    NameTooLong = 37,
    /// Network is down.
    NetDown = 38,
    /// Connection aborted by the network.
    NetReset = 39,
    /// Network unreachable.
    NetUnreach = 40,
    /// Too many files open in the system.
    Nfile = 41,
    /// No buffer space available.
    NoBufs = 42,
    /// No such device.
    NoDev = 43,
    /// No such file or directory.
    NoEnt = 44,
    /// Executable file format error.
    NoExec = 45,
    /// No locks available.
    NoLck = 46,
    /// Reserved.
    NoLink = 47,
    /// Not enough memory.
    NoMem = 48,
    /// No message of the desired type.
    NoMsg = 49,
    /// Protocol not available.
    NoProtoOpt = 50,
    /// No space left on the device.
    NoSpc = 51,
    /// Function not supported.
    NoSys = 52,
    /// The socket is not connected.
    NotConn = 53,
    /// Not a directory.
    NotDir = 54,
    /// Directory not empty.
    NotEmpty = 55,
    /// State not recoverable.
    NotRecoverable = 56,
    /// Not a socket.
    NotSock = 57,
    /// Not supported.
    NotSup = 58,
    /// Inappropriate input/output control operation.
    NoTty = 59,
    /// No such device or address.
    Nxio = 60,
    /// Value too large to be stored in its data type.
    Overflow = 61,
    /// Previous owner died.
    OwnerDead = 62,
    /// Operation not permitted.
    Perm = 63,
    /// Broken pipe.
    Pipe = 64,
    /// Protocol error.
    Proto = 65,
    /// Protocol not supported.
    ProtoNoSupport = 66,
    /// Protocol wrong type for socket.
    Prototype = 67,
    /// Result too large.
    Range = 68,
    /// Read-only file system.
    Rofs = 69,
    /// Invalid seek.
    Spipe = 70,
    /// No such process.
    Srch = 71,
    /// Stale file handle.
    Stale = 72,
    /// Operation timed out.
    TimedOut = 73,
    /// Text file busy.
    TxtBsy = 74,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_dense_and_in_the_order_of_the_witx() {
        assert_eq!(ALL.len(), 77);
        for (index, errno) in ALL.iter().enumerate() {
            assert_eq!(usize::from(errno.code()), index, "{errno:?}");
        }
    }
}
