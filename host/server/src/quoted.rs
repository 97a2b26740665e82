//! Text of clients in messages.

use std::{
    collections::VecDeque,
    fmt::{self, Display, Write},
};

/// Quoted characters of a text: its head and its tail. The tail often names a position.
const HEAD_CHARS: usize = 160;
const TAIL_CHARS: usize = 40;
/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 1_000;

/// Quotes a text that may be a client's, such as a parser's error. Cuts long text in the middle, and never holds the
/// whole text in memory.
pub(crate) fn quoted(text: impl Display) -> String {
    cut(text, HEAD_CHARS)
}

/// Limits the length of a whole message, including everything it quotes.
pub(crate) fn message(text: impl Display) -> String {
    cut(text, MESSAGE_CHARS - TAIL_CHARS)
}

fn cut(text: impl Display, max_head: usize) -> String {
    let mut cut = Cut { head: String::new(), left: max_head, tail: VecDeque::new(), is_cut: false };
    // Writing to `Cut` never fails.
    let _ = write!(cut, "{text}");
    if cut.is_cut {
        cut.head.push('…');
    }
    cut.head.extend(cut.tail);
    cut.head
}

struct Cut {
    head: String,
    /// The characters that `head` may still take.
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
