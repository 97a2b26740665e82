//! Untrusted text in messages and responses: shortening, incremental UTF-8 decoding, and display.

use std::{
    collections::VecDeque,
    fmt::{self, Display, Write},
};

use glovebox::{Untrusted, internal::whole_characters};
use serde::Serializer;

/// The number of characters quoted from the start of a long text.
const HEAD_CHARS: usize = 160;
/// The number of characters quoted from the end of a long text. The end often names a position.
const TAIL_CHARS: usize = 40;
/// Maximum length of a message in characters, without the ellipsis that replaces its middle.
const MESSAGE_CHARS: usize = 1_000;

/// Returns text that a message can quote, such as a parser's error. Cuts long text in the middle without buffering all
/// of it.
pub(crate) fn quoted(text: impl Display) -> String {
    cut(text, HEAD_CHARS)
}

/// Limits the length of a whole message, including quoted text.
pub(crate) fn message(text: impl Display) -> String {
    cut(text, MESSAGE_CHARS - TAIL_CHARS)
}

fn cut(text: impl Display, max_head: usize) -> String {
    let mut cut = TruncatedText { head: String::new(), left: max_head, tail: VecDeque::new(), is_cut: false };
    // Writing to `TruncatedText` never fails.
    let _ = write!(cut, "{text}");
    if cut.is_cut {
        cut.head.push('…');
    }
    cut.head.extend(cut.tail);
    cut.head
}

struct TruncatedText {
    head: String,
    /// The number of characters that still fit into `head`.
    left: usize,
    tail: VecDeque<char>,
    is_cut: bool,
}

impl Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let head = text.char_indices().nth(self.left).map_or(text.len(), |(at, _)| at);
        let (head, rest) = text.split_at(head);
        self.head.push_str(head);
        self.left -= head.chars().count();
        self.tail.extend(rest.chars().rev().take(TAIL_CHARS + 1).collect::<Vec<_>>().into_iter().rev());
        while self.tail.len() > TAIL_CHARS {
            self.is_cut = true;
            self.tail.pop_front();
        }
        Ok(())
    }
}

/// A decoder of UTF-8 text that arrives in chunks. A chunk boundary can split a character.
#[derive(Default)]
pub(crate) struct Utf8Pieces(Vec<u8>);

impl Utf8Pieces {
    /// Returns the length in bytes of the incomplete character at the end of the previous chunk.
    pub(crate) fn pending(&self) -> usize {
        self.0.len()
    }

    /// Decodes the incomplete character of the previous chunk, if any, and `bytes`.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        // Keep the start of an incomplete character (at most three bytes) for the next chunk.
        let rest = self.0.split_off(whole_characters(&self.0).len());
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }
}

/// Serializes untrusted text in its display form, which is escaped and shortened.
pub(crate) fn shown<S: Serializer>(text: &Untrusted, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_over_the_limit_is_truncated() {
        for letter in ["x", "\u{202e}"] {
            let at = letter.repeat(HEAD_CHARS + TAIL_CHARS);
            assert_eq!(quoted(&at), at);
            let over = quoted(format_args!("{at}{letter}"));
            assert_eq!(over, format!("{}…{}", letter.repeat(HEAD_CHARS), letter.repeat(TAIL_CHARS)));
        }
        let long = format!("unknown field `{}` at line 1 column 9", "x".repeat(1 << 20));
        assert!(quoted(&long).starts_with("unknown field `xx") && quoted(&long).ends_with("x` at line 1 column 9"));
        assert_eq!(message("x".repeat(1 << 20)).chars().count(), MESSAGE_CHARS + 1);
    }

    #[test]
    fn character_split_over_two_pieces_is_joined() {
        for text in ["aé€😀b", "😀", "é", "plain", ""] {
            for at in 0..=text.len() {
                let (before, after) = text.as_bytes().split_at(at);
                let mut pieces = Utf8Pieces::default();
                assert_eq!(pieces.next(before) + &pieces.next(after), text, "{at}");
            }
        }
        let mut pieces = Utf8Pieces::default();
        assert_eq!(pieces.next(b"a\xff\xf0\x9f"), "a\u{fffd}");
        assert_eq!(pieces.next(b"x"), "\u{fffd}x");
        assert!(pieces.next(&[0x80; 100]).chars().all(|c| c == '\u{fffd}'), "invalid bytes must not accumulate");
        assert!(pieces.0.is_empty());
    }
}
