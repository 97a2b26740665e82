//! Another process's memory, searched for what a script made in it.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
};

/// A stretch of a process's memory that it can read and write: a linear memory is one, up to its real end, whatever a guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    start: u64,
    end: u64,
}

impl Stretch {
    /// How long it is.
    #[must_use]
    pub(super) fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// How much is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The stretches that hold a word.
///
/// # Errors
/// The process cannot be looked into.
pub(super) fn searched(process: u32, word: &str) -> io::Result<Vec<Stretch>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = File::open(format!("/proc/{process}/mem"))?;
    Ok(maps.lines().filter_map(stretch).filter(|stretch| holds(&memory, *stretch, word.as_bytes())).collect())
}

/// A line of `maps`: `start-end rw-p …`.
fn stretch(line: &str) -> Option<Stretch> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("rw").then_some(Stretch { start: number(start)?, end: number(end)? })
}

fn holds(memory: &File, stretch: Stretch, word: &[u8]) -> bool {
    let mut piece = vec![0; PIECE_BYTES + word.len()];
    let mut at = stretch.start;
    while at < stretch.end {
        let wanted = usize::try_from(stretch.end - at).map_or(piece.len(), |left| left.min(piece.len()));
        let Ok(read @ 1..) = memory.read_at(&mut piece[..wanted], at) else { return false };
        if contains(&piece[..read], word) {
            return true;
        }
        if read <= word.len() {
            return false;
        }
        // The next begins where a word that is cut off here would.
        at += (read - word.len() + 1) as u64;
    }
    false
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let Some((first, _)) = word.split_first() else { return true };
    let mut from = 0;
    while let Some(found) = bytes[from..].iter().position(|byte| byte == first) {
        if bytes[from + found..].starts_with(word) {
            return true;
        }
        from += found + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_is_and_nowhere_else() {
        // Made here, so that it is in no file of this program.
        let word: String = "drow-terces-a".chars().rev().collect();
        let mut held = vec![0_u8; 3 * PIECE_BYTES];
        let at = PIECE_BYTES + 3;
        held[at..at + word.len()].copy_from_slice(word.as_bytes());
        let address = held.as_ptr().addr() as u64 + at as u64;
        let found = searched(std::process::id(), &word).unwrap();
        assert!(found.iter().any(|stretch| (stretch.start..stretch.end).contains(&address)));
        assert!(held.iter().any(|byte| *byte != 0));
    }

    #[test]
    fn a_word_across_two_pieces_is_found() {
        let bytes = [b"xx".as_slice(), b"aab"].concat();
        assert!(contains(&bytes, b"aab") && contains(&bytes, b"xaa") && !contains(&bytes, b"abb"));
    }
}
