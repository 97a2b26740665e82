//! Long text as its head and its tail.

/// How many characters of the beginning of a long text a model is shown: about a thousand tokens, a screen or two. What a script says
/// first is what it was asked.
pub(super) const HEAD_CHARS: usize = 4_000;

/// How many of its end: errors and results come last.
pub(super) const TAIL_CHARS: usize = 4_000;

/// The head and the tail of a text that is longer than both, with a line between them that `note` makes of the number of characters that
/// are left out. `None` where the text is not longer.
pub(super) fn shortened(text: &str, note: impl FnOnce(usize) -> String) -> Option<String> {
    // Most texts are short: bytes are at least as many as characters.
    if text.len() <= HEAD_CHARS + TAIL_CHARS {
        return None;
    }
    let count = text.chars().count();
    let left_out = count.checked_sub(HEAD_CHARS + TAIL_CHARS).filter(|left_out| *left_out > 0)?;
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let head = text.get(..at(HEAD_CHARS)).unwrap_or_default();
    let tail = text.get(at(count - TAIL_CHARS)..).unwrap_or_default();
    Some(format!("{head}\n[… {} …]\n{tail}", note(left_out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_over_the_limit_and_not_under_or_at_it() {
        let most = HEAD_CHARS + TAIL_CHARS;
        let note = |left_out: usize| format!("{left_out} left out");
        for letter in ["x", "é", "🙂"] {
            assert_eq!(shortened(&letter.repeat(most - 1), note), None);
            assert_eq!(shortened(&letter.repeat(most), note), None);
            let short = shortened(&letter.repeat(most + 1), note).unwrap();
            let (head, tail) = short.split_once("\n[… 1 left out …]\n").unwrap();
            assert_eq!((head, tail), (&*letter.repeat(HEAD_CHARS), &*letter.repeat(TAIL_CHARS)));
        }
    }
}
