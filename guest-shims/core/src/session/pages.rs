//! The pages of a guest's memory that are its own: those that differ from its image's.

use std::{fmt, sync::Arc};

/// The size of the pages that memory is saved in, whatever the host's is.
pub const PAGE_BYTES: usize = 4096;

/// One page.
pub type Page = [u8; PAGE_BYTES];

/// How a page of a guest's memory differs from its image and from what was saved of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// As it was saved.
    Unchanged,
    /// As in the image; beyond the image, zero.
    Pristine,
    /// Neither: the page.
    Changed(Arc<Page>),
}

/// A guest's memory, page by page.
pub trait GuestPages {
    /// Compares a page with what was `saved` of it, and then with the image. Beyond the memory every page is pristine.
    fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange;
}

/// Pages by their number, ascending. What is in none of them is as in the image, and zero beyond it.
///
/// A clone shares the pages. So do checkpoints of one session, as far as they are equal.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pages(Vec<(u32, Arc<Page>)>);

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of a memory that differ from the image's, each shared with `earlier` where it is equal there. Only those of
    /// the candidates, which ascend, are looked at.
    pub fn of(memory: &mut impl GuestPages, candidates: impl IntoIterator<Item = u32>, earlier: Self) -> Self {
        let mut found = Vec::with_capacity(earlier.0.len());
        let mut earlier = earlier.0.into_iter().peekable();
        for number in candidates {
            while earlier.next_if(|(before, _)| *before < number).is_some() {}
            let saved = earlier.next_if(|(same, _)| *same == number);
            match (memory.compare(number, saved.as_ref().map(|(_, page)| &**page)), saved) {
                (PageChange::Unchanged, saved) => found.extend(saved),
                (PageChange::Pristine, _) => {}
                (PageChange::Changed(page), _) => found.push((number, page)),
            }
        }
        Self(found)
    }

    /// Writes the pages into the memory of a new instance, which holds the image. False: one of them lies beyond it.
    pub fn write_to(&self, memory: &mut [u8]) -> bool {
        let (memory, _) = memory.as_chunks_mut::<PAGE_BYTES>();
        for (number, page) in &self.0 {
            let Some(into) = memory.get_mut(*number as usize) else { return false };
            *into = **page;
        }
        true
    }

    /// The same page by page, each with its address. False: `write` has refused one.
    pub fn write_with(&self, mut write: impl FnMut(u32, &[u8]) -> bool) -> bool {
        let page_bytes = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
        let mut pages = self.0.iter();
        pages.all(|(number, page)| number.checked_mul(page_bytes).is_some_and(|at| write(at, page.as_slice())))
    }

    /// Whether none of them lies beyond a memory of so many bytes.
    #[must_use]
    pub fn fit(&self, memory_bytes: u64) -> bool {
        self.0.last().is_none_or(|(last, _)| (u64::from(*last) + 1).saturating_mul(PAGE_BYTES as u64) <= memory_bytes)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// What they take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.0.len() * PAGE_BYTES) as u64
    }

    /// What those of them take that nobody else has, in bytes.
    #[must_use]
    pub fn unshared_bytes(&self) -> u64 {
        (self.0.iter().filter(|(_, page)| Arc::strong_count(page) == 1).count() * PAGE_BYTES) as u64
    }

    /// Each with its number, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Page>)> {
        self.0.iter().map(|(number, page)| (*number, page))
    }

    /// Adds a page after all others. False, and nothing is added, if its number is not above theirs.
    pub fn push(&mut self, number: u32, page: Arc<Page>) -> bool {
        let ascends = self.0.last().is_none_or(|(last, _)| *last < number);
        if ascends {
            self.0.push((number, page));
        }
        ascends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory and its image, of which it may be longer.
    struct Sample {
        memory: Vec<Page>,
        image: Vec<Page>,
    }

    impl GuestPages for Sample {
        fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange {
            let original = self.image.get(number as usize).unwrap_or(&[0; PAGE_BYTES]);
            match self.memory.get(number as usize) {
                Some(page) if saved == Some(page) => PageChange::Unchanged,
                Some(page) if page != original => PageChange::Changed(Arc::new(*page)),
                _ => PageChange::Pristine,
            }
        }
    }

    fn numbers(pages: &Pages) -> Vec<u32> {
        pages.iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn what_differs_from_the_image_is_found_and_shared_where_it_is_as_before() {
        let image = vec![[1; PAGE_BYTES]; 4];
        let mut sample = Sample { memory: [&image[..], &[[0; PAGE_BYTES]; 2]].concat(), image };
        assert_eq!(Pages::of(&mut sample, 0..6, Pages::default()), Pages::default());
        sample.memory[1][7] = 2;
        sample.memory[5][0] = 3;
        sample.memory[3] = [0; PAGE_BYTES];
        let first = Pages::of(&mut sample, 0..6, Pages::default());
        assert_eq!((numbers(&first), first.bytes()), (vec![1, 3, 5], 3 * PAGE_BYTES as u64));
        sample.memory[3] = [1; PAGE_BYTES];
        sample.memory[5][0] = 4;
        sample.memory[0][0] = 9;
        let second = Pages::of(&mut sample, 0..9, first.clone());
        assert_eq!(numbers(&second), [0, 1, 5], "one is as in the image again");
        let page = |pages: &Pages, number| {
            pages.iter().find(|(of, _)| *of == number).map(|(_, page)| Arc::clone(page)).unwrap()
        };
        assert!(Arc::ptr_eq(&page(&first, 1), &page(&second, 1)), "equal ones are shared");
        assert_eq!(second.unshared_bytes(), 2 * PAGE_BYTES as u64);
        assert_eq!(page(&second, 5)[0], 4);
        assert_eq!(numbers(&Pages::of(&mut sample, [1, 2], second)), [1], "the others are not looked at");
    }

    #[test]
    fn pages_beyond_the_memory_are_refused_and_numbers_ascend() {
        let page = Arc::new([7; PAGE_BYTES]);
        let mut pages = Pages::default();
        assert!(pages.fit(0));
        assert!(pages.push(1, Arc::clone(&page)));
        assert!(!pages.push(1, Arc::clone(&page)), "twice");
        assert!(!pages.push(0, Arc::clone(&page)), "back");
        assert_eq!(pages.count(), 1);
        let least = 2 * PAGE_BYTES as u64;
        assert_eq!([least - 1, least, least + 1].map(|bytes| pages.fit(bytes)), [false, true, true]);
        assert!(!pages.write_to(&mut [0; PAGE_BYTES]));
        let mut memory = [0; 2 * PAGE_BYTES];
        assert!(pages.write_to(&mut memory));
        assert_eq!((memory[PAGE_BYTES - 1], memory[PAGE_BYTES]), (0, 7));
    }
}
