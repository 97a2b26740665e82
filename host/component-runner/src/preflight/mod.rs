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
mod refusal;
mod sections;

use definitions::Definitions;
use refusal::MAX_TABLE_ELEMENTS;

pub(crate) use refusal::Refusal;

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

#[cfg(test)]
mod tests;
