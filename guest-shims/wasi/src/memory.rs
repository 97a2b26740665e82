//! Reading and writing guest memory. Every address and length is checked.

use crate::{Errno, Host, host::Call, prices};

/// Maximum length of a path from a guest, in bytes (`PATH_MAX` of the platforms that guests are written for).
pub(crate) const PATH_MAX_BYTES: u32 = 4096;

/// Converts a guest's 32-bit size to a `usize`, without truncation where `usize` has at least 32 bits.
pub(crate) fn size(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Converts a length to the guest's 32-bit size, if it fits.
pub(crate) fn guest_size(value: usize) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::Overflow)
}

/// Returns `at + by`, or `EFAULT` past the end of the address space.
pub(crate) fn offset(at: u32, by: u32) -> Result<u32, Errno> {
    at.checked_add(by).ok_or(Errno::Fault)
}

/// Rejects a range that is not completely inside memory, so that a call fails before it has effects.
pub(crate) fn check<H: Host>(host: &H, at: u32, len: u64) -> Result<(), Errno> {
    let end = u64::from(at).checked_add(len).ok_or(Errno::Fault)?;
    if end > host.memory_len() { Err(Errno::Fault) } else { Ok(()) }
}

/// Like [`check`], for `count` elements of `size` bytes each.
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

/// Reads a path and charges its length. The file system's work on its components is charged as it happens.
pub(crate) fn read_path<H: Host>(host: &mut H, at: u32, len: u32) -> Call<String> {
    if len > PATH_MAX_BYTES {
        return Err(Errno::NameTooLong.into());
    }
    check(host, at, u64::from(len))?;
    host.charge(prices::bytes(u64::from(len)))?;
    let mut bytes = vec![0; size(len)];
    host.read(at, &mut bytes)?;
    let path = String::from_utf8(bytes).map_err(|_| Errno::Ilseq)?;
    if path.contains('\0') {
        return Err(Errno::Inval.into());
    }
    Ok(path)
}

/// A piece of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) at: u32,
    pub(crate) len: u32,
}

/// Maximum length of an `iovec` array (`IOV_MAX` of Linux and of the C library that guests are built with).
pub(crate) const IOV_MAX: u32 = 1024;

/// Decodes an `iovec` or `ciovec` array. The pieces are not accessed yet, but all of them are inside memory, and their
/// total fits the guest's `ssize_t`.
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

/// Maximum number of bytes moved at once between guest memory and the host, to bound the host memory that a guest can
/// use.
pub(crate) const CHUNK_BYTES: u32 = 64 * 1024;

impl Region {
    /// Splits the region into pieces of at most [`CHUNK_BYTES`].
    pub(crate) fn chunks(self) -> impl Iterator<Item = Self> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let len = rest.len.min(CHUNK_BYTES);
            if len == 0 {
                return None;
            }
            let chunk = Self { at: rest.at, len };
            // Saturates only for the piece after the last one, which is empty.
            rest = Self { at: rest.at.saturating_add(len), len: rest.len.saturating_sub(len) };
            Some(chunk)
        })
    }
}
