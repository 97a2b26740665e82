//! Splits a module into its code, which imports the memory, and a module that contains only that memory.
//!
//! Compiling an interpreter takes a minute, and its images differ only in their memory. After the split, the code is
//! compiled once. It boots in a memory with the binary's own data, and runs in memories that were saved later.

use wasm_encoder::{
    DataSection, EntityType, ExportKind, ExportSection, ImportSection, MemorySection, Module, RawSection, SectionId,
};
use wasmparser::Validator;

use super::RewriteError;
use super::image::{self, encoded_memory};
use super::longer::{entries, longer};
use super::sections::{Changed, Sections};

/// Module and name of the memory import.
pub const MEMORY_IMPORT: (&str, &str) = ("glovebox", "memory");

/// Export name in the memory's module.
pub const MEMORY_EXPORT: &str = "memory";

/// A split module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The code. It imports its memory as [`MEMORY_IMPORT`] and exports it under the original names.
    pub code: Vec<u8>,
    /// The memory with the module's own data, exported as [`MEMORY_EXPORT`].
    pub memory: Vec<u8>,
}

/// Splits a module.
///
/// # Errors
/// If the module has other state, as for [`with_image`](super::with_image).
pub fn apart(module: &[u8]) -> Result<Apart, RewriteError> {
    let sections = Sections::read(module)?;
    let memory = encoded_memory(&sections, None)?;
    image::check_code(module)?;

    let mut import = ImportSection::new();
    let (from, name) = MEMORY_IMPORT;
    import.import(from, name, EntityType::Memory(memory));
    let changed = vec![
        Changed::to(longer(&sections, SectionId::Import, 1, &entries(&import)?)?),
        Changed::removed(SectionId::Memory),
        Changed::removed(SectionId::Data),
        Changed::removed(SectionId::DataCount),
    ];
    let code = sections.rebuild(changed);
    let data = sections.0.iter().find(|section| section.id == u8::from(SectionId::Data));
    let memory = match data {
        Some(data) => module_of(memory, &RawSection { id: data.id, data: data.data }),
        None => module_of(memory, &DataSection::new()),
    };
    for module in [&code, &memory] {
        Validator::new().validate_all(module)?;
    }
    Ok(Apart { code, memory })
}

/// Returns a memory module with the given contents, in place of the memory that `module` defines. The [`Apart::code`]
/// of that module can run in it.
pub fn memory_of(module: &[u8], content: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let memory = encoded_memory(&sections, Some(content))?;
    let made = module_of(memory, &image::data(content)?);
    Validator::new().validate_all(&made)?;
    Ok(made)
}

fn module_of(memory: wasm_encoder::MemoryType, data: &impl wasm_encoder::Section) -> Vec<u8> {
    let (mut memories, mut exports) = (MemorySection::new(), ExportSection::new());
    memories.memory(memory);
    exports.export(MEMORY_EXPORT, ExportKind::Memory, 0);
    let mut module = Module::new();
    module.section(&memories).section(&exports).section(data);
    module.finish()
}
