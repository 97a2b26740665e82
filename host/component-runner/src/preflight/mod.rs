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
mod refusal;
mod sections;

use definitions::Definitions;
use refusal::MAX_TABLE_ELEMENTS;

pub(crate) use refusal::Refusal;

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
