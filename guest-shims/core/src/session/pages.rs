//! Private pages: the pages of a guest's memory that differ from its image.

use std::{fmt, sync::Arc};

/// The size of a saved page in bytes, independent of the host's page size.
pub const PAGE_BYTES: usize = 4096;

/// The content of one page.
pub type Page = [u8; PAGE_BYTES];

/// The difference of a page from its saved version and from the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// The page equals its saved version.
    Unchanged,
    /// The page equals the image, or is zero beyond the image.
    Pristine,
    /// The page differs from both its saved version and the image. Contains the page's content.
    Changed(Arc<Page>),
}

/// A guest's memory, page by page.
pub trait GuestPages {
    /// Compares a page with its `saved` version, then with the image. A page beyond the end of the memory is pristine.
    fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange;
}

/// Numbered pages in ascending order. All other memory equals the image, or is zero beyond it.
///
/// Clones share the pages, and checkpoints of one session share equal pages.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pages(Vec<(u32, Arc<Page>)>);

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

impl Pages {
    /// Collects the pages of a memory that differ from the image. A page that equals one in `earlier` is shared, not
    /// copied. Only the `candidates`, in ascending order, are compared.
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

    /// Writes the pages to the memory of a new instance of the image. Returns `false` if a page is beyond the end of
    /// memory.
    pub fn write_to(&self, memory: &mut [u8]) -> bool {
        let (memory, _) = memory.as_chunks_mut::<PAGE_BYTES>();
        for (number, page) in &self.0 {
            let Some(into) = memory.get_mut(*number as usize) else { return false };
            *into = **page;
        }
        true
    }

    /// Like [`write_to`](Self::write_to), but calls `write` with the address and content of each page. Stops and
    /// returns `false` when `write` returns `false`, or when a page's address does not fit into 32 bits.
    pub fn write_with(&self, mut write: impl FnMut(u32, &[u8]) -> bool) -> bool {
        let page_bytes = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
        let mut pages = self.0.iter();
        pages.all(|(number, page)| number.checked_mul(page_bytes).is_some_and(|at| write(at, page.as_slice())))
    }

    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the size of the pages in bytes.
    pub fn bytes(&self) -> u64 {
        (self.0.len() * PAGE_BYTES) as u64
    }

    /// Returns the size of the pages that have no other owner, in bytes.
    pub fn unshared_bytes(&self) -> u64 {
        (self.0.iter().filter(|(_, page)| Arc::strong_count(page) == 1).count() * PAGE_BYTES) as u64
    }

    /// Iterates over the pages with their numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Page>)> {
        self.0.iter().map(|(number, page)| (*number, page))
    }

    /// Appends a page. Returns `false` and adds nothing if a page with this or a greater number exists.
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

    /// A memory and its image. The memory can be longer than the image.
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
    fn unchanged_pages_are_shared_with_the_last_checkpoint() {
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
        assert_eq!(numbers(&second), [0, 1, 5], "page 3 equals the image again");
        let page = |pages: &Pages, number| {
            pages.iter().find(|(of, _)| *of == number).map(|(_, page)| Arc::clone(page)).unwrap()
        };
        assert!(Arc::ptr_eq(&page(&first, 1), &page(&second, 1)), "equal pages are shared");
        assert_eq!(second.unshared_bytes(), 2 * PAGE_BYTES as u64);
        assert_eq!(page(&second, 5)[0], 4);
        assert_eq!(numbers(&Pages::of(&mut sample, [1, 2], second)), [1], "only candidates are compared");
    }

    #[test]
    fn pages_must_ascend_within_the_memory() {
        let page = Arc::new([7; PAGE_BYTES]);
        let mut pages = Pages::default();
        assert!(pages.push(1, Arc::clone(&page)));
        assert!(!pages.push(1, Arc::clone(&page)), "twice");
        assert!(!pages.push(0, Arc::clone(&page)), "back");
        assert_eq!(pages.count(), 1);
        assert!(!pages.write_to(&mut [0; PAGE_BYTES]));
        let mut memory = [0; 2 * PAGE_BYTES];
        assert!(pages.write_to(&mut memory));
        assert_eq!((memory[PAGE_BYTES - 1], memory[PAGE_BYTES]), (0, 7));
    }
}
