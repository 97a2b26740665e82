//! Shortens long text to its head and its tail.

/// Characters of the head: about a thousand tokens, a screen or two. Scripts usually print their main result first.
pub(super) const HEAD_CHARS: usize = 4_000;

/// Characters of the tail: errors and results come last.
pub(super) const TAIL_CHARS: usize = 4_000;

/// Shortens a text to its head and tail, separated by a line that `note` builds from the number of omitted characters.
/// Returns `None` if the text is short enough.
pub(super) fn shortened(text: &str, note: impl FnOnce(usize) -> String) -> Option<String> {
    // Most texts are short. The length in characters is at most that in bytes.
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
