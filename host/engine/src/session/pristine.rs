//! An image's memory before any code has run in it.

use std::collections::BTreeMap;

use glovebox_core::session::{PAGE_BYTES, Page};
use wasmtime::{Memory, Module, Store, Val};

use crate::{ExecuteError, guest::template::instantiate_memory};

/// The memory of a runtime's image, in which no code ever runs. Sessions are compared with it when they are saved.
///
/// The memory is a mapping of the image's file, so it needs only address space and one slot in the pool, and no private
/// memory.
pub(crate) struct Pristine {
    store: Store<()>,
    memory: Memory,
    /// Values of the mutable globals while the interpreter is idle, with their export names, sorted by name.
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

    /// Returns `true` if a page equals the image's. Beyond the image, a page of zeros is equal.
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

    /// Returns the size of the image.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    /// Returns the values of the mutable globals while the interpreter is idle, with their export names, sorted by
    /// name.
    pub(crate) fn globals(&self) -> &[(String, u64)] {
        &self.globals
    }
}

/// Returns the bits of a global's value, or `None` for a type that cannot be saved.
pub(crate) fn bits(value: &Val) -> Option<u64> {
    match *value {
        Val::I32(value) => Some(u64::from(value.cast_unsigned())),
        Val::I64(value) => Some(value.cast_unsigned()),
        Val::F32(bits) => Some(u64::from(bits)),
        Val::F64(bits) => Some(bits),
        _ => None,
    }
}
