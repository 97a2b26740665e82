//! Which pages of a pooled instance are worth keeping in memory between guests.
//!
//! When an instance is dropped, Wasmtime's pool sets the pages that its guest wrote to back by copying, and they stay; but
//! it does so for the first 32 contiguous ranges of them only (`MAX_REGIONS` in its `pagemap.rs`) and gives all the
//! others back to the system. CPython scatters its writes (reference counts) over some 80 ranges. Each page that was
//! given back costs the next guest a fault, often two, and every thread of the process an interruption: fresh executions
//! took twice the time, and two threads did less than one.
//!
//! So the pages that an execution wrote to are looked up once per runtime, and the gaps between them filled until few
//! enough ranges are left. Writing to these pages when an instance is made costs next to nothing once they are
//! there, and keeps them there. It changes no byte that a guest can see.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use glovebox_core::session::PAGE_BYTES;

use crate::pagemap::private_pages;

/// How many ranges are kept: 32 less some for the pages that other scripts write to besides.
const RANGES_MOST: usize = 24;

/// More pages than this are not worth copying back each time. 632 are kept for CPython.
const PAGES_MOST: usize = 1024;

/// An execution that wrote to more pages says little about the others; but not every one is to be looked at.
const ATTEMPTS_MOST: u32 = 16;

/// The pages of a runtime's instances that are kept in memory, by their offset in linear memory.
#[derive(Debug, Default)]
pub(crate) struct Resident {
    offsets: OnceLock<Vec<usize>>,
    attempts: AtomicU32,
}

impl Resident {
    /// Writes to the pages to keep, without changing them.
    pub(crate) fn touch(&self, memory: &mut [u8]) {
        for offset in self.offsets.get().into_iter().flatten() {
            if let Some(byte) = memory.get_mut(*offset) {
                // The compiler must not see that this is the value that stands there.
                *byte = std::hint::black_box(*byte);
            }
        }
    }

    /// Learns from the memory of a guest that has just run.
    pub(crate) fn learn(&self, memory: &[u8]) {
        if self.offsets.get().is_some() || self.attempts.fetch_add(1, Ordering::Relaxed) >= ATTEMPTS_MOST {
            return;
        }
        let written = private_pages(memory).unwrap_or_default();
        let pages = filled(&written, RANGES_MOST);
        tracing::debug!(written = written.len(), kept = pages.len(), "learnt which pages an execution writes to");
        if pages.len() <= PAGES_MOST {
            let offsets = pages.into_iter().map(|page| page as usize * PAGE_BYTES).collect();
            // Another thread that learnt at the same time learnt as well.
            let _ = self.offsets.set(offsets);
        }
    }
}

/// Adds the pages of the smallest gaps until the pages lie in at most so many ranges.
fn filled(pages: &[u32], ranges_most: usize) -> Vec<u32> {
    let gaps = || pages.iter().zip(pages.iter().skip(1)).map(|(page, next)| next - page - 1);
    let mut largest: Vec<u32> = gaps().filter(|gap| *gap > 0).collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    // So many ranges have one gap less between them; that many of the largest stay.
    let fill = largest.get(ranges_most.saturating_sub(1)).copied().unwrap_or(0);
    let mut out = Vec::with_capacity(pages.len());
    for (page, gap) in pages.iter().zip(gaps().chain([0])) {
        let end = if gap <= fill { page + gap } else { *page };
        out.extend(*page..=end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pages: &[u32]) -> usize {
        1 + pages.windows(2).filter(|pair| pair[1] != pair[0] + 1).count()
    }

    #[test]
    fn the_smallest_gaps_are_filled_first() {
        let pages = [1, 2, 5, 9, 100];
        assert_eq!(filled(&pages, 4), pages, "few enough already");
        assert_eq!(filled(&pages, 3), [1, 2, 3, 4, 5, 9, 100]);
        assert_eq!(filled(&pages, 2), [1, 2, 3, 4, 5, 6, 7, 8, 9, 100]);
        assert_eq!(filled(&pages, 1), (1..=100).collect::<Vec<_>>());
        assert!(filled(&[], 3).is_empty());
    }

    #[test]
    fn there_are_never_more_ranges_than_asked_for() {
        let scattered: Vec<u32> =
            (0..500).map(|n| n * n % 7919 * 3).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        for most in 1..40 {
            let pages = filled(&scattered, most);
            assert!(ranges(&pages) <= most, "{most}");
            assert!(scattered.iter().all(|page| pages.binary_search(page).is_ok()), "{most}");
        }
    }

    #[test]
    fn touching_changes_nothing_and_stays_inside() {
        let resident = Resident::default();
        resident.offsets.set(vec![0, 4096, 8192, usize::MAX]).unwrap();
        let mut memory: Vec<u8> = (0..=255).cycle().take(8000).collect();
        let before = memory.clone();
        resident.touch(&mut memory);
        assert_eq!(memory, before);
    }

    #[test]
    fn nothing_written_is_nothing_to_keep() {
        let resident = Resident::default();
        resident.learn(&[]);
        resident.touch(&mut []);
        assert!(resident.offsets.get().is_some_and(Vec::is_empty));
    }
}
