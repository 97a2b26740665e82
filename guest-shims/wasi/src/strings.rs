//! Arguments and environment, in the form that `args_get` and `environ_get` deliver.

use crate::failure::Call;
use crate::memory::{check, guest_size, write_u32};
use crate::{Errno, Host, prices};
use glovebox_vfs::escaped;

/// An argument or environment variable that cannot be passed to a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StringError {
    /// C strings end at the first NUL byte.
    #[error("`{name}` contains a NUL character; remove it", name = escaped(.0))]
    Nul(String),
    /// A variable with an empty name, or one that contains `=`.
    #[error("`{name}` is not a valid name for an environment variable; it must not be empty or contain `=`", name = escaped(.0))]
    Name(String),
}

/// A list of strings without NUL, each stored with a final NUL byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    list: Vec<Vec<u8>>,
    total_bytes: u64,
}

impl Strings {
    pub(crate) fn new(strings: impl IntoIterator<Item = String>) -> Result<Self, StringError> {
        let mut list = Vec::new();
        let mut total_bytes = 0_u64;
        for string in strings {
            if string.contains('\0') {
                return Err(StringError::Nul(string));
            }
            let mut bytes = string.into_bytes();
            bytes.push(0);
            total_bytes = total_bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            list.push(bytes);
        }
        Ok(Self { list, total_bytes })
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(crate) fn sizes<H: Host>(&self, host: &mut H, count_at: u32, bytes_at: u32) -> Call {
        let count = guest_size(self.list.len())?;
        let bytes = u32::try_from(self.total_bytes).map_err(|_| Errno::Overflow)?;
        check(host, bytes_at, 4)?;
        write_u32(host, count_at, count)?;
        write_u32(host, bytes_at, bytes)
    }

    pub(crate) fn deliver<H: Host>(&self, host: &mut H, pointers_at: u32, bytes_at: u32) -> Call {
        let count = u64::try_from(self.list.len()).unwrap_or(u64::MAX);
        host.charge(prices::ELEMENT.saturating_mul(count).saturating_add(prices::bytes(self.total_bytes)))?;
        check(host, pointers_at, count.saturating_mul(4))?;
        check(host, bytes_at, self.total_bytes)?;
        let (mut pointer_at, mut at) = (pointers_at, bytes_at);
        for bytes in &self.list {
            write_u32(host, pointer_at, at)?;
            host.write(at, bytes)?;
            // Both arrays are inside memory, so these additions saturate only after the last string of a full memory.
            pointer_at = pointer_at.saturating_add(4);
            at = at.saturating_add(guest_size(bytes.len())?);
        }
        Ok(())
    }
}
