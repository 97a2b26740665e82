//! The pages of a guest's memory that are its own: those that differ from its image's.

use std::{fmt, sync::Arc};

use crate::{
    pagemap::{PAGE_BYTES, private_pages},
    session::pristine::Pristine,
};

/// One page.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Pages by their number, ascending. What is in none of them is as in the image, and zero beyond it.
///
/// A clone shares the pages. So do checkpoints of one session, as far as they are equal.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Pages(Vec<(u32, Arc<Page>)>);

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of `memory` that differ from the image's, each shared with `earlier` where it is equal there.
    ///
    /// Costs what was written to since the instance was made, where the system tells, and otherwise the whole memory.
    pub(crate) fn of(memory: &[u8], pristine: &Pristine, earlier: Self) -> Self {
        let candidates = private_pages(memory);
        Self::among(memory, pristine, earlier, candidates.as_deref())
    }

    fn among(memory: &[u8], pristine: &Pristine, earlier: Self, candidates: Option<&[u32]>) -> Self {
        let (memory, _) = memory.as_chunks::<PAGE_BYTES>();
        let mut found = Vec::with_capacity(earlier.0.len());
        let mut earlier = earlier.0.into_iter().peekable();
        let mut look = |number: u32, page: &Page| {
            while earlier.next_if(|(before, _)| *before < number).is_some() {}
            match earlier.next_if(|(same, _)| *same == number) {
                Some((_, kept)) if *kept == *page => found.push((number, kept)),
                _ if pristine.has(number, page) => {}
                _ => found.push((number, Arc::new(*page))),
            }
        };
        match candidates {
            Some(candidates) => {
                for number in candidates {
                    if let Some(page) = memory.get(*number as usize) {
                        look(*number, page);
                    }
                }
            }
            None => (0..).zip(memory).for_each(|(number, page)| look(number, page)),
        }
        Self(found)
    }

    /// Writes the pages into the memory of a new instance, which holds the image. False: one of them lies beyond it.
    pub(crate) fn write_to(&self, memory: &mut [u8]) -> bool {
        let (memory, _) = memory.as_chunks_mut::<PAGE_BYTES>();
        for (number, page) in &self.0 {
            let Some(into) = memory.get_mut(*number as usize) else { return false };
            *into = **page;
        }
        true
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What they take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.0.len() * PAGE_BYTES) as u64
    }

    /// Each with its number, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Page>)> {
        self.0.iter().map(|(number, page)| (*number, page))
    }

    /// Adds a page after all others. False, and nothing is added, if its number is not above theirs.
    pub(crate) fn push(&mut self, number: u32, page: Arc<Page>) -> bool {
        let ascends = self.0.last().is_none_or(|(last, _)| *last < number);
        if ascends {
            self.0.push((number, page));
        }
        ascends
    }
}
