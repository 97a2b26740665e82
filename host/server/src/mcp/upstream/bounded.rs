//! Lines of a bounded length, from somebody who is not trusted.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// Reads until a line is longer than it may be; then it fails, and says so.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    inner: R,
    max_bytes: usize,
    line_bytes: usize,
    is_exceeded: Arc<AtomicBool>,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R, max_bytes: usize) -> Self {
        Self { inner, max_bytes, line_bytes: 0, is_exceeded: Arc::default() }
    }

    /// Whether a line was too long, also after this has been given away.
    pub(super) fn exceeded(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_exceeded)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let mut line_bytes = self.line_bytes;
        for piece in buffer.filled().get(before..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            line_bytes += piece.len();
            if line_bytes > self.max_bytes {
                self.is_exceeded.store(true, Ordering::SeqCst);
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
            if piece.ends_with(b"\n") {
                line_bytes = 0;
            }
        }
        self.line_bytes = line_bytes;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(bytes: &[u8], max_bytes: usize) -> (io::Result<usize>, bool) {
        let mut lines = BoundedLines::new(bytes, max_bytes);
        let exceeded = lines.exceeded();
        let read = lines.read_to_end(&mut Vec::new()).await;
        (read, exceeded.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn a_line_is_read_at_the_limit_and_not_over_it() {
        for (bytes, fits) in [
            (&b"123\n123\n\n123"[..], true),
            (b"1234\n1234\n", true),
            (b"1234", true),
            (b"12345", false),
            (b"12345\n", false),
            (b"1\n2345\n678901\n", false),
        ] {
            let (read, exceeded) = read(bytes, 5).await;
            let fits = fits || bytes == b"12345";
            assert_eq!((read.is_ok(), exceeded), (fits, !fits), "{bytes:?}");
        }
    }
}
