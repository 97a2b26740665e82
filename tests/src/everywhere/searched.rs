//! Searches another process's memory for data that a script created in it.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
};

/// A readable and writable address range of a process. A linear memory is one such range. Its end is the real end of
/// the memory, which can be past the size that the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    start: u64,
    end: u64,
}

impl AddressRange {
    /// Returns the length in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// The size of a machine page.
const PAGE_BYTES: u64 = 4096;
/// The size of the entry for a page in `pagemap`.
const ENTRY_BYTES: usize = 8;
/// The two most significant bits of an entry. One of them is set if the page is present or swapped out.
const IS_THERE: u8 = 0b1100_0000;

/// Returns the address ranges that contain a word. Skips untouched pages, because hosts reserve much more memory than
/// they use.
///
/// # Errors
/// Fails if the process's memory cannot be read.
pub(super) fn searched(process: u32, word: &str) -> io::Result<Vec<AddressRange>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = File::open(format!("/proc/{process}/mem"))?;
    let pages = File::open(format!("/proc/{process}/pagemap"))?;
    let holds =
        |stretch: &AddressRange| touched(&pages, *stretch).is_ok_and(|runs| holds(&memory, &runs, word.as_bytes()));
    Ok(maps.lines().filter_map(stretch).filter(holds).collect())
}

/// Returns the runs of touched pages in an address range.
fn touched(pages: &File, stretch: AddressRange) -> io::Result<Vec<AddressRange>> {
    let count = usize::try_from(stretch.bytes() / PAGE_BYTES).map_err(io::Error::other)?;
    let mut entries = vec![0; count * ENTRY_BYTES];
    pages.read_exact_at(&mut entries, stretch.start / PAGE_BYTES * ENTRY_BYTES as u64)?;
    let mut runs: Vec<AddressRange> = Vec::new();
    for (number, entry) in (0..).zip(entries.chunks_exact(ENTRY_BYTES)) {
        // Entries are little-endian, so the last byte contains the most significant bits.
        if entry.last().is_none_or(|highest| highest & IS_THERE == 0) {
            continue;
        }
        let start = stretch.start + number * PAGE_BYTES;
        match runs.last_mut().filter(|run| run.end == start) {
            Some(run) => run.end += PAGE_BYTES,
            None => runs.push(AddressRange { start, end: start + PAGE_BYTES }),
        }
    }
    Ok(runs)
}

/// Parses a line of `maps`: `start-end rw-p …`.
fn stretch(line: &str) -> Option<AddressRange> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("rw").then_some(AddressRange { start: number(start)?, end: number(end)? })
}

/// Returns `true` if a run contains a word.
fn holds(memory: &File, runs: &[AddressRange], word: &[u8]) -> bool {
    runs.iter().any(|run| {
        let mut bytes = vec![0; usize::try_from(run.bytes()).unwrap_or(0)];
        memory.read_exact_at(&mut bytes, run.start).is_ok() && contains(&bytes, word)
    })
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
    fn search_finds_exact_occurrences() {
        // The word is reversed at run time, so that it does not occur in this program's files.
        let word: String = "drow-terces-a".chars().rev().collect();
        let mut held = vec![0_u8; 3 << 20];
        let at = (1 << 20) + 3;
        held[at..at + word.len()].copy_from_slice(word.as_bytes());
        let address = held.as_ptr().addr() as u64 + at as u64;
        let found = searched(std::process::id(), &word).unwrap();
        assert!(found.iter().any(|stretch| (stretch.start..stretch.end).contains(&address)));
        assert!(held.iter().any(|byte| *byte != 0));
    }

    #[test]
    fn search_handles_self_overlapping_prefixes() {
        assert!(contains(b"xxaab", b"aab") && contains(b"xxaab", b"xaa") && !contains(b"xxaab", b"abb"));
    }
}
