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

#[cfg(test)]
mod tests {
    use wasmtime::{Instance, Memory, Module, Store};

    use super::*;
    use crate::{PoolConfig, config::wasmtime_engine};

    /// A module with nothing but a memory of four pages of WebAssembly, up to 64, half of it filled.
    fn module_bytes() -> Vec<u8> {
        fn leb(mut number: usize) -> Vec<u8> {
            let mut out = Vec::new();
            while number > 0x7f {
                out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
                number >>= 7;
            }
            out.push(u8::try_from(number).unwrap());
            out
        }
        let filled: Vec<u8> = (0..131_072_u32).map(|at| at.to_le_bytes()[usize::from(at % 3 == 0)] | 1).collect();
        let mut module = b"\0asm\x01\0\0\0\x05\x04\x01\x01\x04\x40\x07\x0a\x01\x06memory\x02\0".to_vec();
        let mut data = b"\x01\0\x41\0\x0b".to_vec();
        data.extend(leb(filled.len()));
        data.extend(filled);
        module.push(11);
        module.extend(leb(data.len()));
        module.extend(data);
        module
    }

    fn instance(engine: &wasmtime::Engine, module: &Module) -> (Store<()>, Instance, Memory) {
        let mut store = Store::new(engine, ());
        store.set_fuel(u64::MAX).unwrap();
        let instance = Instance::new(&mut store, module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        (store, instance, memory)
    }

    /// Xorshift: the same on every machine.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).unwrap()
        }
    }

    fn with_engines(test: impl Fn(&wasmtime::Engine, &Module, &Pristine)) {
        for pool in [None, Some(PoolConfig { instance_count: 8, ..PoolConfig::default() })] {
            let engine = wasmtime_engine(pool.as_ref()).unwrap();
            let module = Module::new(&engine, module_bytes()).unwrap();
            let (store, instance, _) = instance(&engine, &module);
            test(&engine, &module, &Pristine::new(store, instance, &[]).unwrap());
        }
    }

    #[test]
    fn the_page_map_and_comparing_everything_find_the_same_and_it_restores_the_memory() {
        with_engines(|engine, module, pristine| {
            for seed in 1..40 {
                let mut random = Random(seed);
                let (mut store, _, memory) = instance(engine, module);
                let mut pages = Pages::default();
                for round in 0..6 {
                    if random.below(3) == 0 && memory.data_size(&store) < 8 << 16 {
                        memory.grow(&mut store, 1).unwrap();
                    }
                    let data = memory.data_mut(&mut store);
                    for _ in 0..random.below(20) {
                        let at = random.below(data.len());
                        // Zero now and then, so that pages become what they were.
                        data[at] = u8::try_from(random.below(256)).unwrap() * u8::from(random.below(4) > 0);
                    }
                    for number in 0..random.below(8) {
                        let range = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
                        data[range].copy_from_slice(pristine.page(u32::try_from(number).unwrap()).unwrap());
                    }
                    let found = Pages::of(data, pristine, pages.clone());
                    let compared = Pages::among(data, pristine, Pages::default(), None);
                    assert_eq!(found, compared, "seed {seed}, round {round}");
                    for (number, page) in found.iter() {
                        let before = pages.iter().find(|(before, _)| *before == number);
                        let is_same = before.is_some_and(|(_, before)| **before == **page);
                        assert_eq!(
                            before.is_some_and(|(_, before)| Arc::ptr_eq(before, page)),
                            is_same,
                            "shared if equal"
                        );
                    }
                    pages = found;
                }
                let (mut copy_store, _, copy) = instance(engine, module);
                let grown = memory.size(&store) - copy.size(&copy_store);
                copy.grow(&mut copy_store, grown).unwrap();
                assert!(pages.write_to(copy.data_mut(&mut copy_store)));
                assert!(copy.data(&copy_store) == memory.data(&store), "seed {seed}");
            }
        });
    }

    #[test]
    fn an_untouched_instance_has_no_pages_of_its_own() {
        with_engines(|engine, module, pristine| {
            let (mut store, _, memory) = instance(engine, module);
            assert_eq!(Pages::of(memory.data(&store), pristine, Pages::default()).count(), 0);
            memory.grow(&mut store, 2).unwrap();
            let data = memory.data_mut(&mut store);
            // Written to, but as it was: one page in the image and one beyond it.
            data[0] = std::hint::black_box(data[0]);
            data[5 << 16] = 0;
            assert_eq!(Pages::of(data, pristine, Pages::default()).count(), 0);
            data[5 << 16] = 1;
            assert_eq!(Pages::of(data, pristine, Pages::default()).bytes(), PAGE_BYTES as u64);
        });
    }

    #[test]
    fn pages_beyond_the_memory_are_refused_and_numbers_ascend() {
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
