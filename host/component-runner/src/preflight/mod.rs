//! Checks of a component before Wasmtime reads it: whether compiling it costs far more than its size suggests, and the
//! host memory that each of its instances takes.
//!
//! Wasmtime simulates the instantiation of a component during compilation, once for each time that something is
//! instantiated, and copies every item that is passed on. 26 components that each instantiate the previous one twice
//! are 1.7 KB and 2^26 instances. This module performs the same simulation first, with numbers instead of code, and
//! stops at a limit.
//!
//! 1. [`sections`] reads only the headers of sections, because even parsing can be too expensive.
//! 2. [`definitions`] reads modules and components, each once.
//! 3. [`instances`] simulates the instantiation.

mod definitions;
mod instances;
mod module;
mod sections;
#[cfg(test)]
mod tests;

use definitions::Definitions;

/// Returns the host memory of one component instance in bytes, without linear memories and table elements. It is never
/// less than Wasmtime allocates.
pub(crate) fn check(component: &[u8]) -> Result<u64, Refusal> {
    sections::check(component)?;
    let definitions = Definitions::read(component)?;
    let tables = definitions.modules.iter().fold(0u64, |sum, module| sum.saturating_add(module.table_elements));
    if tables > MAX_TABLE_ELEMENTS {
        return Err(Refusal::TableElements);
    }
    instances::count(&definitions)
}

/// Maximum number of core modules and components in a component, at any depth. Programs in several languages, with
/// everything that their tools add, have 5 to 16.
const MAX_PARTS: usize = 1_000;

/// Maximum nesting of component and instance types in one section. Real types nest two levels deep; the stack for
/// compilation suffices for more than 10,000.
const MAX_TYPES: usize = 1_000;

/// Maximum number of core module and component instances. The sandbox itself, as a component, has 6.
/// [`AppLimits::instances`](crate::AppLimits::instances) limits a run, with a smaller default.
const MAX_INSTANCES: u64 = 10_000;

/// Maximum number of functions that components lift, lower or get from the canonical ABI, over all instances. Each is
/// compiled. The sandbox has 44.
const MAX_CANONICAL: u64 = 20_000;

/// Maximum number of items in definitions, instances, and the arguments passed between them, counted each time that
/// they are copied. The sandbox has 1,824. Wasmtime needs up to a kilobyte and some microseconds per item.
const MAX_ITEMS: u64 = 250_000;

/// Maximum number of initial table elements of all modules, each counted once. Wasmtime may store all of them in the
/// compiled module.
const MAX_TABLE_ELEMENTS: u64 = 4_000_000;

/// Why a component is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it consists of more than {} modules and components", MAX_PARTS)]
    Parts,
    #[error("a section may nest more than {} types", MAX_TYPES)]
    Types,
    #[error("it instantiates more than {MAX_INSTANCES} modules and components")]
    Instances,
    #[error("its instances have more than {MAX_CANONICAL} lifted, lowered and built-in functions")]
    Canonical,
    #[error("its instances consist of more than {MAX_ITEMS} items")]
    Items,
    #[error("the tables of its modules have more than {MAX_TABLE_ELEMENTS} initial elements")]
    TableElements,
    #[error("it instantiates a module or a component that it imports")]
    Imported,
    /// The component is malformed, with Wasmtime's message where available.
    #[error("{0}")]
    Malformed(String),
}

impl From<wasmparser::BinaryReaderError> for Refusal {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}
