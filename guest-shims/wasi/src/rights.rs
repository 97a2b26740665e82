//! Rights and flags of preview 1.

pub(crate) const FD_DATASYNC: u64 = 1;
pub(crate) const FD_READ: u64 = 1 << 1;
pub(crate) const FD_SEEK: u64 = 1 << 2;
pub(crate) const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
pub(crate) const FD_SYNC: u64 = 1 << 4;
pub(crate) const FD_TELL: u64 = 1 << 5;
pub(crate) const FD_WRITE: u64 = 1 << 6;
pub(crate) const FD_ADVISE: u64 = 1 << 7;
pub(crate) const FD_ALLOCATE: u64 = 1 << 8;
pub(crate) const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
pub(crate) const PATH_CREATE_FILE: u64 = 1 << 10;
pub(crate) const PATH_LINK_SOURCE: u64 = 1 << 11;
pub(crate) const PATH_LINK_TARGET: u64 = 1 << 12;
pub(crate) const PATH_OPEN: u64 = 1 << 13;
pub(crate) const FD_READDIR: u64 = 1 << 14;
pub(crate) const PATH_READLINK: u64 = 1 << 15;
pub(crate) const PATH_RENAME_SOURCE: u64 = 1 << 16;
pub(crate) const PATH_RENAME_TARGET: u64 = 1 << 17;
pub(crate) const PATH_FILESTAT_GET: u64 = 1 << 18;
pub(crate) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
pub(crate) const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
pub(crate) const FD_FILESTAT_GET: u64 = 1 << 21;
pub(crate) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
pub(crate) const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
pub(crate) const PATH_SYMLINK: u64 = 1 << 24;
pub(crate) const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
pub(crate) const PATH_UNLINK_FILE: u64 = 1 << 26;
pub(crate) const POLL_FD_READWRITE: u64 = 1 << 27;

/// Every right except the two for sockets.
pub(crate) const ALL: u64 = (1 << 28) - 1;

/// The rights of a file: none for paths.
pub(crate) const FILE: u64 = FD_DATASYNC
    | FD_READ
    | FD_SEEK
    | FD_FDSTAT_SET_FLAGS
    | FD_SYNC
    | FD_TELL
    | FD_WRITE
    | FD_ADVISE
    | FD_ALLOCATE
    | FD_FILESTAT_GET
    | FD_FILESTAT_SET_SIZE
    | FD_FILESTAT_SET_TIMES
    | POLL_FD_READWRITE;

/// The base rights of a directory. It has no bytes and no position, and `path_open` refuses to open a directory for
/// writing. Descriptors opened beneath it may have [`ALL`].
pub(crate) const DIRECTORY_BASE: u64 = ALL
    & !(FD_READ | FD_SEEK | FD_TELL | FD_WRITE | FD_ADVISE | FD_ALLOCATE | FD_FILESTAT_SET_SIZE | POLL_FD_READWRITE);

/// The rights of standard input: no seek, no tell.
pub(crate) const INPUT: u64 = FD_READ | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// The rights of standard output and standard error: no seek, no tell.
pub(crate) const OUTPUT: u64 = FD_WRITE | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// The rights of a device. The tools device can neither seek nor tell (`ESPIPE`), but the C library takes a character
/// device without these two rights for a terminal.
pub(crate) const DEVICE: u64 =
    FD_READ | FD_WRITE | FD_SEEK | FD_TELL | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// `fdflags`.
pub(crate) const APPEND: u16 = 1;
/// All `fdflags`: append, dsync, nonblock, rsync, sync. All but the first are stored and have no effect.
pub(crate) const FDFLAGS: u16 = 0b1_1111;

/// `oflags`.
pub(crate) const CREAT: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCL: u32 = 4;
pub(crate) const TRUNC: u32 = 8;

/// `lookupflags`.
pub(crate) const SYMLINK_FOLLOW: u32 = 1;

/// `fstflags`.
pub(crate) const ATIM: u32 = 1;
pub(crate) const ATIM_NOW: u32 = 2;
pub(crate) const MTIM: u32 = 4;
pub(crate) const MTIM_NOW: u32 = 8;
