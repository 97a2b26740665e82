//! What a guest wrote.

use glovebox_wasi::Captured;

/// What a guest wrote to one of its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The bytes retained, at most the stream's limit.
    pub bytes: Vec<u8>,
    /// How many bytes were written in all.
    pub total_bytes: u64,
}

impl Output {
    /// Whether bytes were dropped at the limit.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }

    /// The bytes as text. A character that the limit cut in two is left out; other bytes that are no UTF-8 become U+FFFD.
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
