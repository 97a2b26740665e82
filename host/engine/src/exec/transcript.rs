//! The output of a started execution while it runs.

use std::sync::{Mutex, PoisonError};

use crate::{Execution, Stream};

/// Both output streams of a running execution, up to their limits. `None` once the execution has a result, which
/// contains the output.
#[derive(Debug)]
pub(super) struct Transcript(Mutex<Option<TranscriptBytes>>);

#[derive(Debug, Default)]
struct TranscriptBytes {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self(Mutex::new(Some(TranscriptBytes::default())))
    }
}

impl Transcript {
    /// Appends output, which the caller has already limited.
    pub(super) fn add(&self, stream: Stream, bytes: &[u8]) {
        if let Some(written) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            match stream {
                Stream::Stdout => written.stdout.extend_from_slice(bytes),
                Stream::Stderr => written.stderr.extend_from_slice(bytes),
            }
        }
    }

    /// Frees the output. The execution's result now contains it.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns at most `len_bytes` of a stream, starting at `offset`. Returns `None` if the transcript is closed.
    pub(super) fn read(&self, stream: Stream, offset: u64, len_bytes: u64) -> Option<Vec<u8>> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = written.as_ref().map(|written| match stream {
            Stream::Stdout => &written.stdout,
            Stream::Stderr => &written.stderr,
        })?;
        Some(part(bytes, offset, len_bytes))
    }
}

/// Like [`Transcript::read`], but for a finished execution.
pub(super) fn finished_output(execution: &Execution, stream: Stream, offset: u64, len_bytes: u64) -> Vec<u8> {
    let output = match stream {
        Stream::Stdout => &execution.stdout,
        Stream::Stderr => &execution.stderr,
    };
    part(&output.bytes, offset, len_bytes)
}

fn part(bytes: &[u8], offset: u64, len_bytes: u64) -> Vec<u8> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    let len = usize::try_from(len_bytes).unwrap_or(usize::MAX).min(rest.len());
    rest.get(..len).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_part_is_limited_to_available_bytes() {
        for (offset, len, expected) in [
            (0, 4, "abcd"),
            (0, 6, "abcdef"),
            (0, 7, "abcdef"),
            (5, 1, "f"),
            (6, 1, ""),
            (7, 1, ""),
            (2, 0, ""),
            (u64::MAX, u64::MAX, ""),
            (3, u64::MAX, "def"),
        ] {
            assert_eq!(part(b"abcdef", offset, len), expected.as_bytes(), "{offset} {len}");
        }
    }

    #[test]
    fn streams_are_separate_and_dropped_on_close() {
        let transcript = Transcript::default();
        transcript.add(Stream::Stdout, b"out");
        transcript.add(Stream::Stderr, b"err");
        transcript.add(Stream::Stdout, b"put");
        assert_eq!(transcript.read(Stream::Stdout, 2, 2).as_deref(), Some(&b"tp"[..]));
        assert_eq!(transcript.read(Stream::Stderr, 0, 9).as_deref(), Some(&b"err"[..]));
        transcript.close();
        transcript.add(Stream::Stdout, b"more");
        assert_eq!(transcript.read(Stream::Stdout, 0, 9), None);
    }
}
