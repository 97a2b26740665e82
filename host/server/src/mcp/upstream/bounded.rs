//! Lines of JSON of limited length and cost, from an untrusted peer.

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

use crate::json_cost::JsonCost;

/// A reader of lines. It fails once a line is too long, or its values would take too much memory.
#[derive(Debug)]
pub(in crate::mcp) struct BoundedLines<R> {
    inner: R,
    max_bytes: usize,
    line_bytes: usize,
    cost: JsonCost,
    is_exceeded: Arc<AtomicBool>,
}

impl<R> BoundedLines<R> {
    pub(in crate::mcp) fn new(inner: R, max_bytes: usize) -> Self {
        Self { inner, max_bytes, line_bytes: 0, cost: JsonCost::default(), is_exceeded: Arc::default() }
    }

    /// A flag that is set when a line was too long. It remains accessible after the reader was given away.
    pub(super) fn exceeded(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_exceeded)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let (mut line_bytes, mut cost) = (self.line_bytes, self.cost);
        for piece in buffer.filled().get(before..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            line_bytes += piece.len();
            if line_bytes > self.max_bytes || cost.read(piece).is_err() {
                self.is_exceeded.store(true, Ordering::SeqCst);
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
            if piece.ends_with(b"\n") {
                (line_bytes, cost) = (0, JsonCost::default());
            }
        }
        (self.line_bytes, self.cost) = (line_bytes, cost);
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

    #[tokio::test]
    async fn a_line_of_many_values_is_not_read_and_many_lines_are() {
        let values = "[],".repeat(1 << 18);
        for (text, fits) in [
            (format!("[{values}0]\n"), false),
            (format!("\"{values}\"\n"), true),
            ("[[],[],[]]\n".repeat(1 << 16), true),
            ("[".repeat(200), false),
        ] {
            let (read, exceeded) = read(text.as_bytes(), 8 << 20).await;
            assert_eq!((read.is_ok(), exceeded), (fits, !fits), "{}", &text[..20]);
        }
    }
}
