//! Translation of a module's indices to those of the woven module.

use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode};

use crate::module::index;

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
