//! Captured output of a guest.

use glovebox_wasi::Captured;

/// Captured output of one standard stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The retained bytes, at most the stream's limit.
    pub bytes: Vec<u8>,
    /// The number of bytes written in total.
    pub total_bytes: u64,
}

impl Output {
    /// Returns whether bytes were dropped at the limit.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }

    /// Returns the bytes as text. A character that the limit cut in two is omitted; other invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        let held = if self.is_truncated() {
            match std::str::from_utf8(&self.bytes) {
                Err(error) if error.error_len().is_none() => self.bytes.get(..error.valid_up_to()).unwrap_or(&[]),
                _ => &self.bytes,
            }
        } else {
            &self.bytes
        };
        String::from_utf8_lossy(held).into_owned()
    }
}

impl From<Captured> for Output {
    fn from(Captured { bytes, total_bytes, .. }: Captured) -> Self {
        Self { bytes, total_bytes }
    }
}
