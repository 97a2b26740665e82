//! What an image looks like before anything has run in it.

use std::collections::BTreeMap;

use glovebox_core::session::{PAGE_BYTES, Page};
use wasmtime::{Memory, Module, Store, Val};

use crate::{ExecuteError, template::instantiate_memory};

/// The memory of a runtime's image, in which nothing ever runs: what sessions are compared with when they are saved.
///
/// It is a mapping of the image's file, so it costs address space, one place in the pool, and no memory that is not the file's.
pub(crate) struct Pristine {
    store: Store<()>,
    memory: Memory,
    /// What every mutable global holds while the interpreter is idle, by its export name, in that order.
    globals: Vec<(String, u64)>,
}

impl Pristine {
    /// Instantiates an image's memory.
    pub(crate) fn new(memory: &Module, globals: &BTreeMap<String, u64>) -> Result<Self, ExecuteError> {
        let mut store = Store::new(memory.engine(), ());
        let memory = instantiate_memory(&mut store, memory)
            .map_err(|error| ExecuteError::Instantiate { reason: format!("{error:#}") })?;
        let globals = globals.iter().map(|(name, bits)| (name.clone(), *bits)).collect();
        Ok(Self { store, memory, globals })
    }

    /// Whether a page is as in the image; beyond the image, whether it is zero.
    pub(crate) fn has(&self, number: u32, page: &Page) -> bool {
        match self.page(number) {
            Some(original) => original == page,
            None => *page == [0; PAGE_BYTES],
        }
    }

    /// A page of the image; none beyond it.
    pub(crate) fn page(&self, number: u32) -> Option<&Page> {
        self.memory.data(&self.store).as_chunks::<PAGE_BYTES>().0.get(number as usize)
    }

    /// The image's size.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    /// What every mutable global holds while the interpreter is idle, by its export name, in that order.
    pub(crate) fn globals(&self) -> &[(String, u64)] {
        &self.globals
    }
}

/// The bits of a global's value; none for one that cannot be saved.
pub(crate) fn bits(value: &Val) -> Option<u64> {
    match *value {
        Val::I32(value) => Some(u64::from(value.cast_unsigned())),
        Val::I64(value) => Some(value.cast_unsigned()),
        Val::F32(bits) => Some(u64::from(bits)),
        Val::F64(bits) => Some(bits),
        _ => None,
    }
}
