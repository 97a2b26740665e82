//! Access to guest memory, and the binary structures of preview 1. Every address and length is checked.

use glovebox_vfs::{FileKind, Stat};

use crate::{Errno, Host, host::Call, prices};

/// Maximum length of a path from a guest, in bytes (`PATH_MAX` on the platforms that guest programs target).
pub(crate) const PATH_MAX_BYTES: u32 = 4096;

/// Converts a guest's 32-bit size to a `usize`. No value is truncated if `usize` has at least 32 bits.
pub(crate) fn size(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Converts a length to the guest's 32-bit size. Fails if the length does not fit.
pub(crate) fn guest_size(value: usize) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::Overflow)
}

/// Returns `at + by`. Fails with `EFAULT` past the end of the address space.
pub(crate) fn offset(at: u32, by: u32) -> Result<u32, Errno> {
    at.checked_add(by).ok_or(Errno::Fault)
}

/// Rejects a range that is not completely inside memory, so that a call fails before it has any effect.
pub(crate) fn check<H: Host>(host: &H, at: u32, len: u64) -> Result<(), Errno> {
    let end = u64::from(at).checked_add(len).ok_or(Errno::Fault)?;
    if end > host.memory_len() { Err(Errno::Fault) } else { Ok(()) }
}

/// Like [`check`], but for `count` elements of `size` bytes each.
pub(crate) fn check_array<H: Host>(host: &H, at: u32, count: u32, size: u64) -> Result<(), Errno> {
    check(host, at, u64::from(count).saturating_mul(size))
}

pub(crate) fn read_array<const N: usize, H: Host>(host: &mut H, at: u32) -> Call<[u8; N]> {
    let mut bytes = [0; N];
    host.read(at, &mut bytes)?;
    Ok(bytes)
}

pub(crate) fn write_u32<H: Host>(host: &mut H, at: u32, value: u32) -> Call {
    Ok(host.write(at, &value.to_le_bytes())?)
}

pub(crate) fn write_u64<H: Host>(host: &mut H, at: u32, value: u64) -> Call {
    Ok(host.write(at, &value.to_le_bytes())?)
}

/// Reads a path and charges its length. The file system separately charges its work on each component.
pub(crate) fn read_path<H: Host>(host: &mut H, at: u32, len: u32) -> Call<String> {
    if len > PATH_MAX_BYTES {
        return Err(Errno::NameTooLong.into());
    }
    check(host, at, u64::from(len))?;
    host.charge(prices::bytes(u64::from(len)))?;
    let mut bytes = vec![0; size(len)];
    host.read(at, &mut bytes)?;
    let path = String::from_utf8(bytes).map_err(|_| Errno::Ilseq)?;
    if path.contains('\0') { Err(Errno::Inval.into()) } else { Ok(path) }
}

/// A range of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) at: u32,
    pub(crate) len: u32,
}

/// Maximum length of an `iovec` array (`IOV_MAX` in Linux and in the guests' C library).
pub(crate) const IOV_MAX: u32 = 1024;

/// Decodes an `iovec` or `ciovec` array without accessing its regions. All regions are checked to be inside memory, and
/// their total length to fit the guest's `ssize_t`.
pub(crate) fn read_iovecs<H: Host>(host: &mut H, at: u32, count: u32) -> Call<Vec<Region>> {
    const SIZE: u32 = 8;
    if count > IOV_MAX {
        return Err(Errno::Inval.into());
    }
    check_array(host, at, count, u64::from(SIZE))?;
    host.charge(prices::ELEMENT.saturating_mul(u64::from(count)))?;
    let mut regions = Vec::with_capacity(size(count));
    let mut total = 0_u64;
    for index in 0..count {
        let [a, b, c, d, e, f, g, h] = read_array(host, offset(at, index.saturating_mul(SIZE))?)?;
        let region = Region { at: u32::from_le_bytes([a, b, c, d]), len: u32::from_le_bytes([e, f, g, h]) };
        check(host, region.at, u64::from(region.len))?;
        total = total.saturating_add(u64::from(region.len));
        if total > u64::from(i32::MAX.unsigned_abs()) {
            return Err(Errno::Inval.into());
        }
        if region.len > 0 {
            regions.push(region);
        }
    }
    Ok(regions)
}

/// Maximum number of bytes copied at once between guest memory and the host. This limit bounds the host memory that a
/// guest can use.
pub(crate) const CHUNK_BYTES: u32 = 64 * 1024;

impl Region {
    /// Splits the region into chunks of at most [`CHUNK_BYTES`].
    pub(crate) fn chunks(self) -> impl Iterator<Item = Self> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let len = rest.len.min(CHUNK_BYTES);
            if len == 0 {
                return None;
            }
            let chunk = Self { at: rest.at, len };
            // The addition saturates only for the empty region after the last chunk.
            rest = Self { at: rest.at.saturating_add(len), len: rest.len.saturating_sub(len) };
            Some(chunk)
        })
    }
}

/// `filetype` of an unknown type, used for the standard streams.
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

/// Little-endian fields at their offsets, with zeros between them.
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

/// The `filestat` structure.
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
            // Roots are separate file systems, and guests compare inode numbers together with the device number.
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

/// Encodes WASI's `fdstat` struct in its guest memory layout.
pub(crate) fn fdstat(file_type: u8, flags: u16, rights_base: u64, rights_inheriting: u64) -> [u8; 24] {
    Fields::new()
        .put(0, [file_type])
        .put(2, flags.to_le_bytes())
        .put(8, rights_base.to_le_bytes())
        .put(16, rights_inheriting.to_le_bytes())
        .bytes
}

/// The size of WASI's `dirent` struct in bytes, without the name.
pub(crate) const DIRENT_BYTES: usize = 24;

/// Encodes WASI's `dirent` struct in its guest memory layout, without the name that follows it.
pub(crate) fn dirent(next_cookie: u64, inode: u64, name_len: u32, file_type: u8) -> [u8; DIRENT_BYTES] {
    Fields::new()
        .put(0, next_cookie.to_le_bytes())
        .put(8, inode.to_le_bytes())
        .put(16, name_len.to_le_bytes())
        .put(20, [file_type])
        .bytes
}

/// Encodes WASI's `event` struct in its guest memory layout.
pub(crate) fn event(userdata: u64, errno: u16, event_type: u8, available_bytes: u64, flags: u16) -> [u8; 32] {
    Fields::new()
        .put(0, userdata.to_le_bytes())
        .put(8, errno.to_le_bytes())
        .put(10, [event_type])
        .put(16, available_bytes.to_le_bytes())
        .put(24, flags.to_le_bytes())
        .bytes
}

/// Returns the field of `N` bytes at offset `at`. Bytes past the end are zero; no caller reads them.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    field
}
