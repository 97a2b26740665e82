//! Sends the output of snippets as print events.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::Stream;

use super::{
    event,
    frame::{self, Message},
};
use crate::output::incomplete_len;

/// A printer that sends output as text. Clones share the bytes of incomplete characters, so that a dump does not split
/// a character.
#[derive(Clone, Debug, Default)]
pub(super) struct Printer(Arc<Mutex<PartialCharacters>>);

/// Bytes that do not form a complete character yet.
#[derive(Debug, Default)]
struct PartialCharacters {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Printer {
    /// Returns the listener that sends output. Errors are ignored here: if the client has exited, sending the next
    /// event fails too.
    pub(super) fn listener(self) -> impl FnMut(Stream, &[u8]) + Send + 'static {
        move |stream, bytes| {
            let mut incomplete = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let buffer = if matches!(stream, Stream::Stdout) { &mut incomplete.stdout } else { &mut incomplete.stderr };
            buffer.extend_from_slice(bytes);
            let text = take_text(buffer);
            send(stream, &text);
        }
    }

    /// Sends replacement characters for incomplete characters at the end of a snippet.
    pub(super) fn finish(&self) {
        let PartialCharacters { stdout, stderr } =
            mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        send(Stream::Stdout, &String::from_utf8_lossy(&stdout));
        send(Stream::Stderr, &String::from_utf8_lossy(&stderr));
    }
}

fn send(stream: Stream, text: &str) {
    if text.is_empty() {
        return;
    }
    let number = if matches!(stream, Stream::Stdout) { 1 } else { 2 };
    let segment = Message::default().number(1, number).bytes(2, text.as_bytes()).finish();
    let print = Message::default().bytes(1, &segment).finish();
    let _ = frame::write(&Message::default().bytes(event::PRINT, &print).finish());
}

/// Removes and returns the text in a buffer, except for an incomplete character at the end.
fn take_text(buffer: &mut Vec<u8>) -> String {
    let rest = buffer.split_off(buffer.len().saturating_sub(incomplete_len(buffer)));
    String::from_utf8_lossy(&mem::replace(buffer, rest)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_characters_wait_for_their_rest() {
        let mut buffer = Vec::new();
        for (bytes, text, rest) in [
            (&b"a\xc3"[..], "a", &b"\xc3"[..]),
            (b"\xa9", "\u{e9}", b""),
            (b"\xe2\x82", "", b"\xe2\x82"),
            // Bytes that do not complete the character, followed by the beginning of another character.
            (b"b\xff\xf0\x9f", "\u{fffd}b\u{fffd}", b"\xf0\x9f"),
            (b"\x98\x80", "\u{1f600}", b""),
        ] {
            buffer.extend_from_slice(bytes);
            assert_eq!((take_text(&mut buffer).as_str(), buffer.as_slice()), (text, rest), "{bytes:?}");
        }
    }
}
