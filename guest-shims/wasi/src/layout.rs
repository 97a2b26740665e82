//! The structures of preview 1 as bytes.

use glovebox_vfs::{FileKind, Stat};

/// `filetype` of an unknown type: the standard streams.
pub(crate) const UNKNOWN: u8 = 0;
/// `filetype` of a character device.
pub(crate) const CHARACTER_DEVICE: u8 = 2;
/// `filetype` of a directory.
pub(crate) const DIRECTORY: u8 = 3;
/// `filetype` of a regular file.
pub(crate) const REGULAR: u8 = 4;

/// Returns the `filetype` of a file system entry.
pub(crate) fn file_type(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => REGULAR,
        FileKind::Directory => DIRECTORY,
        FileKind::Symlink => 7,
    }
}

/// Little-endian fields at their offsets, with zeros between.
struct Fields<const N: usize> {
    bytes: [u8; N],
}

impl<const N: usize> Fields<N> {
    fn new() -> Self {
        Self { bytes: [0; N] }
    }

    fn put<const M: usize>(mut self, at: usize, field: [u8; M]) -> Self {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(field) {
            *to = from;
        }
        self
    }
}

/// `filestat`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileStat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) file_type: u8,
    pub(crate) links: u64,
    pub(crate) size_bytes: u64,
    pub(crate) accessed_ns: u64,
    pub(crate) modified_ns: u64,
    pub(crate) changed_ns: u64,
}

impl FileStat {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            // Roots are separate file systems, and guests compare inode numbers together with this number.
            device: u64::from(stat.root.index()).saturating_add(1),
            inode: stat.inode.get(),
            file_type: file_type(stat.kind),
            links: stat.links,
            size_bytes: stat.size_bytes,
            accessed_ns: stat.accessed_ns,
            modified_ns: stat.modified_ns,
            changed_ns: stat.changed_ns,
        }
    }

    pub(crate) fn encode(self) -> [u8; 64] {
        Fields::new()
            .put(0, self.device.to_le_bytes())
            .put(8, self.inode.to_le_bytes())
            .put(16, [self.file_type])
            .put(24, self.links.to_le_bytes())
            .put(32, self.size_bytes.to_le_bytes())
            .put(40, self.accessed_ns.to_le_bytes())
            .put(48, self.modified_ns.to_le_bytes())
            .put(56, self.changed_ns.to_le_bytes())
            .bytes
    }
}

/// Encodes `fdstat`.
pub(crate) fn fdstat(file_type: u8, flags: u16, rights_base: u64, rights_inheriting: u64) -> [u8; 24] {
    Fields::new()
        .put(0, [file_type])
        .put(2, flags.to_le_bytes())
        .put(8, rights_base.to_le_bytes())
        .put(16, rights_inheriting.to_le_bytes())
        .bytes
}

/// The size of a `dirent` without its name.
pub(crate) const DIRENT_BYTES: usize = 24;

/// Encodes a `dirent`, without the name that follows it.
pub(crate) fn dirent(next_cookie: u64, inode: u64, name_len: u32, file_type: u8) -> [u8; DIRENT_BYTES] {
    Fields::new()
        .put(0, next_cookie.to_le_bytes())
        .put(8, inode.to_le_bytes())
        .put(16, name_len.to_le_bytes())
        .put(20, [file_type])
        .bytes
}

/// Encodes an `event`.
pub(crate) fn event(userdata: u64, errno: u16, event_type: u8, available_bytes: u64, flags: u16) -> [u8; 32] {
    Fields::new()
        .put(0, userdata.to_le_bytes())
        .put(8, errno.to_le_bytes())
        .put(10, [event_type])
        .put(16, available_bytes.to_le_bytes())
        .put(24, flags.to_le_bytes())
        .bytes
}

/// Returns the field of `N` bytes at `at`, with zeros past the end, which no caller reads.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    field
}
