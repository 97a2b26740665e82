//! What an image looks like before anything has run in it.

use glovebox_core::session::{PAGE_BYTES, Page};
use glovebox_runtimes::rewrite::MutableGlobal;
use wasmtime::{Instance, Memory, Store, Val};

/// An instance of a runtime's image that is never entered: what sessions are compared with when they are saved.
///
/// Its memory is a mapping of the image's file, so it costs address space, one place in the pool, and no memory that
/// is not the file's. It has no WASI: every import would trap.
pub(crate) struct Pristine {
    store: Store<()>,
    memory: Memory,
    /// What every mutable global holds while the interpreter rests, by its export name, in that order.
    globals: Vec<(String, u64)>,
}

impl Pristine {
    /// Wraps an instance; none when it does not export what an image does.
    pub(crate) fn new(mut store: Store<()>, instance: Instance, globals: &[MutableGlobal]) -> Option<Self> {
        let memory = instance.get_memory(&mut store, "memory")?;
        let mut read = |global: &MutableGlobal| {
            let value = instance.get_global(&mut store, &global.export)?.get(&mut store);
            Some((global.export.clone(), bits(&value)?))
        };
        let mut globals = globals.iter().map(&mut read).collect::<Option<Vec<_>>>()?;
        globals.sort();
        Some(Self { store, memory, globals })
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

    /// What every mutable global holds while the interpreter rests, by its export name, in that order.
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
