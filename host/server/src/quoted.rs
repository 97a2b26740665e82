//! Texts of clients in messages.

use std::{
    collections::VecDeque,
    fmt::{self, Display, Write},
};

/// How many characters of a text a message quotes: its head, and its end, which often says where something is.
const HEAD_CHARS: usize = 160;
const TAIL_CHARS: usize = 40;
/// How many characters a whole message has.
const MESSAGE_CHARS: usize = 1_000;

/// A text that a client may have written, such as an error of a parser, cut in the middle where it is long. It is never in memory as a whole.
pub(crate) fn quoted(text: impl Display) -> String {
    cut(text, HEAD_CHARS)
}

/// A whole message, which is never long, whatever it quotes.
pub(crate) fn message(text: impl Display) -> String {
    cut(text, MESSAGE_CHARS - TAIL_CHARS)
}

fn cut(text: impl Display, max_head: usize) -> String {
    let mut cut = Cut { head: String::new(), left: max_head, tail: VecDeque::new(), is_cut: false };
    // Writing to it never fails.
    let _ = write!(cut, "{text}");
    if cut.is_cut {
        cut.head.push('…');
    }
    cut.head.extend(cut.tail);
    cut.head
}

struct Cut {
    head: String,
    /// How many characters `head` may still get.
    left: usize,
    tail: VecDeque<char>,
    is_cut: bool,
}

impl Write for Cut {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_over_the_limit_and_not_under_or_at_it() {
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
}
