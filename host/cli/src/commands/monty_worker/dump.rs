//! The layout of dumps: a byte with flags, parts that begin with their size, and a rest.

use anyhow::Context as _;

/// Flag of a session whose snippet waits.
pub(super) const WAITS: u8 = 1;
/// Flag of a dump with the state of type checks.
pub(super) const TYPES: u8 = 2;

pub(super) fn write_part(dump: &mut Vec<u8>, part: &[u8]) -> anyhow::Result<()> {
    let size = u32::try_from(part.len()).context("a part of the dump is too long")?;
    dump.extend_from_slice(&size.to_le_bytes());
    dump.extend_from_slice(part);
    Ok(())
}

/// Removes and returns the first part of the bytes. Returns `None` if the bytes are too short.
pub(super) fn read_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).ok()?)?;
    *bytes = rest;
    Some(part)
}
