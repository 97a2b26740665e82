//! UTF-8 text that arrives in pieces.

/// Decodes UTF-8 text that arrives in pieces of bytes. A character may be split between two pieces.
#[derive(Default)]
pub(crate) struct Utf8Pieces(Vec<u8>);

impl Utf8Pieces {
    /// Decodes a piece, after the incomplete character of the previous one.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(_) => self.0.len(),
            // Keeps the start of an incomplete character for the next piece: at most three bytes.
            Err(_) => self.0.len() - incomplete(&self.0),
        };
        let rest = self.0.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }
}

/// The length of an incomplete character at the end of `bytes`.
fn incomplete(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let needed = match last.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    if bytes.ends_with(last) && last.len() < needed { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_is_one() {
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
        assert!(pieces.next(&[0x80; 100]).chars().all(|c| c == '\u{fffd}'), "nothing piles up");
        assert!(pieces.0.is_empty());
    }
}
