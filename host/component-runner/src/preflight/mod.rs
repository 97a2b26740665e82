//! What is found out about a component before Wasmtime reads it: whether compiling it would take out of all proportion to its size,
//! and what the host will hold for each of its instances.
//!
//! Wasmtime carries out the instantiation of a component while it compiles it, once for each time that something is instantiated, and
//! copies what is handed on. 26 components that instantiate each other twice are 1.7 KB and 2^26 instances. Here the same is carried
//! out first, with numbers instead of code, and ends where a limit is reached.
//!
//! 1. [`sections`] looks at nothing but where sections begin, because even reading can be too much.
//! 2. [`definitions`] reads modules and components, each once.
//! 3. [`instances`] carries out the instantiation.

mod definitions;
mod instances;
mod module;
mod sections;

use definitions::Definitions;

/// The most instances of core modules and components. The sandbox itself as a component has 6;
/// [`AppLimits::instances`](crate::AppLimits::instances), which a run is held to, is smaller by default.
const MAX_INSTANCES: u64 = 10_000;

/// The most functions that components lift, lower or get from the canonical ABI, in all instances. Each is compiled. The sandbox
/// has 44.
const MAX_CANONICAL: u64 = 20_000;

/// The most items that definitions have and that instances are made of and hand on, each counted as often as it is copied. The
/// sandbox has 1,824; Wasmtime takes up to a kilobyte and some microseconds for each.
const MAX_ITEMS: u64 = 250_000;

/// The most elements that the tables of all its modules begin with, each module counted once: Wasmtime may write them all down.
const MAX_TABLE_ELEMENTS: u64 = 4_000_000;

/// Why a component is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it consists of more than {} modules and components", sections::MAX_PARTS)]
    Parts,
    #[error("a section of its may have more than {} types within one another", sections::MAX_TYPES)]
    Types,
    #[error("it instantiates more than {MAX_INSTANCES} modules and components")]
    Instances,
    #[error("its instances have more than {MAX_CANONICAL} lifted, lowered and built-in functions")]
    Canonical,
    #[error("its instances are made of more than {MAX_ITEMS} items")]
    Items,
    #[error("the tables of its modules begin with more than {MAX_TABLE_ELEMENTS} elements")]
    TableElements,
    #[error("it instantiates a module or a component that it imports")]
    Imported,
    /// It is not well-formed, in Wasmtime's words where they are Wasmtime's.
    #[error("{0}")]
    Malformed(String),
}

impl From<wasmparser::BinaryReaderError> for Refusal {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// What the host holds for one instance of a component, beside memories and the elements of tables, in bytes; at least what Wasmtime
/// allocates.
pub(crate) fn check(component: &[u8]) -> Result<u64, Refusal> {
    sections::check(component)?;
    let definitions = Definitions::read(component)?;
    let tables = definitions.modules.iter().fold(0u64, |sum, module| sum.saturating_add(module.table_elements));
    if tables > MAX_TABLE_ELEMENTS {
        return Err(Refusal::TableElements);
    }
    instances::count(&definitions)
}

#[cfg(test)]
mod tests;
