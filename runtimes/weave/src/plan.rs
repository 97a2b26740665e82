//! Indices in the woven module, and the translation of a module's indices to them.

use std::convert::Infallible;

use wasm_encoder::{
    Function, ValType,
    reencode::{Error, Reencode},
};

use crate::{
    assembly::Assembly,
    guest::Read,
    module::{count, index},
};

/// Indices that generated functions use.
pub(crate) struct Plan<'a> {
    /// Tag of the unwinding exception.
    pub(crate) tag: u32,
    /// Index of the shim's memory. The guests' memories come first: engines access the first memory of a module
    /// fastest, and its accesses are a byte shorter.
    pub(crate) shim_memory: u32,
    /// The fuel counter, an `i64` global: remaining fuel minus one.
    pub(crate) fuel: u32,
    /// The reason of the last unwind, an `i32` global.
    pub(crate) reason: u32,
    /// The remaining native stack, an `i64` global.
    pub(crate) depth: u32,
    /// Index and length of the data segment with the description.
    pub(crate) description: (u32, u32),
    pub(crate) guests: Vec<Placed<'a>>,
}

impl Plan<'_> {
    /// Returns `true` if any guest defines exceptions.
    pub(crate) fn throws(&self) -> bool {
        self.guests.iter().any(|guest| !guest.read.module.tags.is_empty())
    }
}

/// A guest and its indices in the woven module.
pub(crate) struct Placed<'a> {
    pub(crate) read: Read<'a>,
    pub(crate) shift: Shift,
    /// The global with the guest's virtual memory size in pages.
    pub(crate) virtual_size: u32,
    /// The data segment with the guest's image.
    pub(crate) image: u32,
    /// The data segment with the guest's library, if it has one.
    pub(crate) library: Option<u32>,
}

impl Placed<'_> {
    /// Returns the index of the guest's memory.
    pub(crate) fn memory(&self) -> u32 {
        self.shift.memories
    }
}

/// Why a call was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The shim requested it and knows the reason.
    Asked = 0,
    /// The guest executed `unreachable`.
    Unreachable = 1,
    /// Calls were too deep.
    Depth = 2,
    /// The guest did not catch an exception that it threw.
    Thrown = 3,
}

/// Generated functions, whose indices are assigned before their bodies exist.
pub(crate) struct GeneratedFunctions {
    first: u32,
    functions: Vec<Option<(u32, Function)>>,
}

impl GeneratedFunctions {
    /// `first` is the index of the first function.
    pub(crate) fn new(first: u32) -> Self {
        Self { first, functions: Vec::new() }
    }

    /// Reserves the next index.
    pub(crate) fn reserve(&mut self) -> u32 {
        let next = self.next();
        self.functions.push(None);
        next
    }

    /// Returns the index after all reserved ones.
    pub(crate) fn next(&self) -> u32 {
        self.first.saturating_add(count(&self.functions))
    }

    /// Sets the type and body of a reserved function.
    pub(crate) fn define(
        &mut self,
        assembly: &mut Assembly,
        function: u32,
        (parameters, results): (&[ValType], &[ValType]),
        body: Function,
    ) {
        let signature = assembly.signature(parameters, results);
        let at = usize::try_from(function.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(slot) = self.functions.get_mut(at) {
            *slot = Some((signature, body));
        }
    }

    /// Writes the functions. `None` if a reserved function was not defined.
    pub(crate) fn finish(self, assembly: &mut Assembly) -> Option<()> {
        for function in self.functions {
            let (signature, body) = function?;
            assembly.define(signature, &body);
        }
        Some(())
    }
}

/// Moves every index of a module: each index space by a constant distance, except for imported functions, which are
/// mapped one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift {
    /// The new index of each imported function.
    pub(crate) imported_functions: Vec<u32>,
    /// The new index of the module's first own function.
    pub(crate) own_functions: u32,
    pub(crate) types: u32,
    pub(crate) tables: u32,
    pub(crate) memories: u32,
    pub(crate) tags: u32,
    pub(crate) globals: u32,
    pub(crate) elements: u32,
    pub(crate) data: u32,
}

impl Shift {
    /// Returns the new index of a function.
    pub(crate) fn function(&self, before: u32) -> u32 {
        match self.imported_functions.get(index(before)) {
            Some(now) => *now,
            None => {
                let imported = u32::try_from(self.imported_functions.len()).unwrap_or(u32::MAX);
                self.own_functions.saturating_add(before.saturating_sub(imported))
            }
        }
    }
}

type Moved = Result<u32, Error<Infallible>>;

impl Reencode for Shift {
    type Error = Infallible;

    fn function_index(&mut self, before: u32) -> Moved {
        Ok(self.function(before))
    }

    fn type_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.types))
    }

    fn table_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.tables))
    }

    fn memory_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.memories))
    }

    fn tag_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.tags))
    }

    fn global_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.globals))
    }

    fn element_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.elements))
    }

    fn data_index(&mut self, before: u32) -> Moved {
        Ok(before.saturating_add(self.data))
    }
}
