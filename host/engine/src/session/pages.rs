//! The initial memory of an image, and the pages of a guest's memory that differ from it.

use std::{collections::BTreeMap, sync::Arc};

use glovebox_core::session::{GuestPages, PAGE_BYTES, Page, PageChange, Pages};
use wasmtime::{Memory, Module, Store, Val};

use crate::{
    ExecuteError,
    guest::{instantiate::instantiate_memory, machine::GuestMachine},
};

/// A memory and the image to compare it with.
struct ImageComparison<'a> {
    memory: &'a [Page],
    pristine: &'a PristineImage,
}

impl GuestPages for ImageComparison<'_> {
    fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange {
        match self.memory.get(number as usize) {
            Some(page) if saved == Some(page) => PageChange::Unchanged,
            Some(page) if !self.pristine.has(number, page) => PageChange::Changed(Arc::new(*page)),
            _ => PageChange::Pristine,
        }
    }
}

/// The size of a guest's private memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrivateBytes {
    /// The size of all pages that may differ from the image: the maximum size of a checkpoint.
    pub(super) all: u64,
    /// The size of the pages of `all` that lie within the image.
    pub(super) in_image: u64,
}

impl PrivateBytes {
    /// Measures an idle guest whose image has `image_bytes`. If the system does not expose the private pages, all pages
    /// are assumed to be private.
    pub(super) fn measure(machine: &mut GuestMachine, image_bytes: u64) -> Self {
        match machine.private_pages() {
            Some(numbers) => Self::count(numbers.iter().copied(), image_bytes),
            None => Self { all: machine.memory().len() as u64, in_image: image_bytes },
        }
    }

    /// Returns the size for a guest whose only private pages are the restored `pages`.
    pub(super) fn restored(pages: &Pages, image_bytes: u64) -> Self {
        Self::count(pages.iter().map(|(number, _)| number), image_bytes)
    }

    fn count(numbers: impl Iterator<Item = u32>, image_bytes: u64) -> Self {
        let page_bytes = PAGE_BYTES as u64;
        let mut bytes = Self::default();
        for number in numbers {
            bytes.all += page_bytes;
            bytes.in_image += if u64::from(number) * page_bytes < image_bytes { page_bytes } else { 0 };
        }
        bytes
    }
}

/// Returns the pages of `memory` that differ from the image, sharing equal pages with `earlier`. Compares only the
/// pages in `numbers`, if they are known.
pub(super) fn own_pages(memory: &[u8], pristine: &PristineImage, numbers: Option<Vec<u32>>, earlier: Pages) -> Pages {
    let mut compared = ImageComparison { memory: memory.as_chunks::<PAGE_BYTES>().0, pristine };
    match numbers {
        Some(numbers) => Pages::of(&mut compared, numbers, earlier),
        None => {
            let count = u32::try_from(compared.memory.len()).unwrap_or(u32::MAX);
            Pages::of(&mut compared, 0..count, earlier)
        }
    }
}

/// The memory of a runtime's image, in which no code ever runs. Sessions are compared with this memory when they are
/// saved.
///
/// The memory is a mapping of the image's file. It needs address space and one pool slot, but no private memory.
pub(crate) struct PristineImage {
    store: Store<()>,
    memory: Memory,
    /// Export names and values of an idle interpreter's mutable globals, sorted by name.
    globals: Vec<(String, u64)>,
}

impl PristineImage {
    /// Instantiates an image's memory.
    pub(crate) fn new(memory: &Module, globals: &BTreeMap<String, u64>) -> Result<Self, ExecuteError> {
        let mut store = Store::new(memory.engine(), ());
        let memory = instantiate_memory(&mut store, memory)
            .map_err(|error| ExecuteError::Instantiate { reason: format!("{error:#}") })?;
        let globals = globals.iter().map(|(name, bits)| (name.clone(), *bits)).collect();
        Ok(Self { store, memory, globals })
    }

    /// Returns `true` if `page` equals the image's page. Beyond the end of the image, an all-zero page is equal.
    pub(crate) fn has(&self, number: u32, page: &Page) -> bool {
        match self.page(number) {
            Some(original) => original == page,
            None => *page == [0; PAGE_BYTES],
        }
    }

    /// Returns a page of the image, or `None` beyond its end.
    pub(crate) fn page(&self, number: u32) -> Option<&Page> {
        self.memory.data(&self.store).as_chunks::<PAGE_BYTES>().0.get(number as usize)
    }

    /// Returns the size of the image in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    /// Returns the export names and values of an idle interpreter's mutable globals, sorted by name.
    pub(crate) fn globals(&self) -> &[(String, u64)] {
        &self.globals
    }
}

/// Encodes a global's value as bits. Returns `None` for types that cannot be saved.
pub(crate) fn bits(value: &Val) -> Option<u64> {
    match *value {
        Val::I32(value) => Some(u64::from(value.cast_unsigned())),
        Val::I64(value) => Some(value.cast_unsigned()),
        Val::F32(bits) => Some(u64::from(bits)),
        Val::F64(bits) => Some(bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use wasmtime::{Instance, Memory, Module, Store};

    use super::*;
    use crate::{PoolConfig, config::wasmtime_engine, guest::private_pages::private_pages};

    /// Returns a module that defines only a memory of four to 64 Wasm pages, of which two are initialized.
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
        let instance = Instance::new(&mut store, module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        (store, instance, memory)
    }

    /// A xorshift generator, which produces the same numbers on every machine.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).unwrap()
        }
    }

    fn with_engines(test: impl Fn(&wasmtime::Engine, &Module, &PristineImage)) {
        for pool in [None, Some(PoolConfig { instance_count: 8, ..PoolConfig::default() })] {
            let engine = wasmtime_engine(pool.as_ref(), crate::Metering::Fuel).unwrap();
            let module = Module::new(&engine, module_bytes()).unwrap();
            test(&engine, &module, &PristineImage::new(&module, &BTreeMap::new()).unwrap());
        }
    }

    #[test]
    fn page_map_agrees_with_comparison_and_restores_memory() {
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
                        // A quarter of the bytes are zero, so that pages can return to their original content.
                        data[at] = u8::try_from(random.below(256)).unwrap() * u8::from(random.below(4) > 0);
                    }
                    for number in 0..random.below(8) {
                        let range = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
                        data[range].copy_from_slice(pristine.page(u32::try_from(number).unwrap()).unwrap());
                    }
                    let found = own_pages(data, pristine, private_pages(data), pages.clone());
                    let compared = own_pages(data, pristine, None, Pages::default());
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
    fn untouched_instance_has_no_private_pages() {
        with_engines(|engine, module, pristine| {
            let (mut store, _, memory) = instance(engine, module);
            assert_eq!(
                own_pages(memory.data(&store), pristine, private_pages(memory.data(&store)), Pages::default()).count(),
                0
            );
            memory.grow(&mut store, 2).unwrap();
            let data = memory.data_mut(&mut store);
            // Overwrites a byte in the image and a byte beyond it with equal values.
            data[0] = std::hint::black_box(data[0]);
            data[5 << 16] = 0;
            assert_eq!(own_pages(data, pristine, private_pages(data), Pages::default()).count(), 0);
            data[5 << 16] = 1;
            assert_eq!(own_pages(data, pristine, private_pages(data), Pages::default()).bytes(), PAGE_BYTES as u64);
        });
    }
}
