//! Inspects a module without compiling it.

use wasm_encoder::SectionId;
use wasmparser::{ExternalKind, Operator, Payload, TypeRef, ValType};

use super::{
    RewriteError,
    sections::{Sections, bound},
};

/// The kind of an imported or exported item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemKind {
    /// A function.
    Function,
    /// A table.
    Table,
    /// A memory.
    Memory,
    /// A global.
    Global,
    /// An exception tag.
    Tag,
}

/// An import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The name of the module that provides the import, such as `wasi_snapshot_preview1`.
    pub module: String,
    /// The name in that module.
    pub name: String,
    /// The kind of the imported item.
    pub kind: ItemKind,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name of the export.
    pub name: String,
    /// The kind of the exported item.
    pub kind: ItemKind,
    /// The item's index among the items of its kind.
    pub index: u32,
}

/// A global, imported or defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// The index of the global.
    pub index: u32,
    /// `true` if code can change the value.
    pub mutable: bool,
    /// `true` if the value is an `i32`, as in a stack pointer.
    pub is_i32: bool,
}

/// A memory that the module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The initial size in pages of 64 KiB.
    pub minimum_pages: u64,
    /// Maximum size in pages of 64 KiB.
    pub maximum_pages: Option<u64>,
    /// `true` if threads can share the memory.
    pub shared: bool,
    /// `true` if addresses have 64 bits.
    pub is_64: bool,
}

/// The entry point of a WASI module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleKind {
    /// Exports `_start`, which is called once.
    Command,
    /// Exports `_initialize`, which is called once. Other exports can then be called any number of times.
    Reactor,
    /// Exports neither `_start` nor `_initialize`.
    Library,
}

/// The properties of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// The kind of module, which determines its entry point.
    pub kind: ModuleKind,
    /// Imports, in order.
    pub imports: Vec<Import>,
    /// Exports, in order.
    pub exports: Vec<Export>,
    /// The first memory that the module defines, if there is one.
    pub memory: Option<MemoryInfo>,
    /// Globals, imported ones first.
    pub globals: Vec<GlobalInfo>,
    /// `true` if the module has a `name` section.
    pub has_names: bool,
    /// `true` if the module has a start function.
    pub has_start: bool,
}

impl ModuleInfo {
    /// Returns `true` if the module imports only functions of WASI preview 1, so that it can run.
    pub fn needs_only_wasi(&self) -> bool {
        self.imports.iter().all(|import| import.module == "wasi_snapshot_preview1" && import.kind == ItemKind::Function)
    }
}

/// Reads a module's properties without examining its code.
///
/// # Errors
/// Fails if the bytes are not a well-formed core module.
pub fn inspect(module: &[u8]) -> Result<ModuleInfo, RewriteError> {
    let sections = Sections::read(module)?;
    let mut imports = Vec::new();
    for section in &sections.0 {
        if let Payload::ImportSection(reader) = &section.payload {
            for import in reader.clone().into_imports() {
                bound(imports.len(), "imports")?;
                let import = import?;
                let kind = match import.ty {
                    TypeRef::Func(_) | TypeRef::FuncExact(_) => ItemKind::Function,
                    TypeRef::Table(_) => ItemKind::Table,
                    TypeRef::Memory(_) => ItemKind::Memory,
                    TypeRef::Global(_) => ItemKind::Global,
                    TypeRef::Tag(_) => ItemKind::Tag,
                };
                imports.push(Import { module: import.module.to_owned(), name: import.name.to_owned(), kind });
            }
        }
    }
    let exports = sections.exports()?.into_iter().map(|export| {
        let kind = match export.kind {
            ExternalKind::Func | ExternalKind::FuncExact => ItemKind::Function,
            ExternalKind::Table => ItemKind::Table,
            ExternalKind::Memory => ItemKind::Memory,
            ExternalKind::Global => ItemKind::Global,
            ExternalKind::Tag => ItemKind::Tag,
        };
        Export { name: export.name.to_owned(), kind, index: export.index }
    });
    let exports: Vec<_> = exports.collect();
    let has = |name: &str| exports.iter().any(|export| export.name == name && export.kind == ItemKind::Function);
    let kind = match (has("_start"), has("_initialize")) {
        (true, _) => ModuleKind::Command,
        (false, true) => ModuleKind::Reactor,
        (false, false) => ModuleKind::Library,
    };
    let memory = sections.memories()?.first().map(|memory| MemoryInfo {
        minimum_pages: memory.initial,
        maximum_pages: memory.maximum,
        shared: memory.shared,
        is_64: memory.memory64,
    });
    let globals = (0u32..).zip(sections.globals()?).map(|(index, global)| GlobalInfo {
        index,
        mutable: global.mutable,
        is_i32: global.content_type == ValType::I32,
    });
    let globals = globals.collect();
    let has_start = sections.has(SectionId::Start);
    Ok(ModuleInfo { kind, imports, exports, memory, globals, has_names: sections.names().is_some(), has_start })
}

/// Returns `true` if a module's code can change only one memory and the instance's globals, so that restoring them
/// resets the instance.
///
/// Tables and passive segments are also part of an instance's state, and an embedder cannot determine whether a segment
/// was dropped.
///
/// # Errors
/// Fails if the bytes are not a well-formed core module.
pub fn changes_only_memory_and_globals(module: &[u8]) -> Result<bool, RewriteError> {
    let sections = Sections::read(module)?;
    let has_imported_state = inspect(module)?.imports.iter().any(|import| import.kind != ItemKind::Function);
    if sections.memories()?.len() > 1 || has_imported_state {
        return Ok(false);
    }
    for section in &sections.0 {
        let Payload::CodeSectionStart { range, .. } = &section.payload else { continue };
        let reader = wasmparser::BinaryReader::new(module.get(range.clone()).unwrap_or_default(), range.start);
        for body in wasmparser::CodeSectionReader::new(reader)? {
            for operator in body?.get_operators_reader()? {
                if changes_other_state(&operator?) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn changes_other_state(operator: &Operator<'_>) -> bool {
    use Operator as Op;
    matches!(
        operator,
        Op::TableSet { .. }
            | Op::TableFill { .. }
            | Op::TableGrow { .. }
            | Op::TableCopy { .. }
            | Op::TableInit { .. }
            | Op::TableAtomicSet { .. }
            | Op::TableAtomicRmwXchg { .. }
            | Op::TableAtomicRmwCmpxchg { .. }
            | Op::ElemDrop { .. }
            // `memory.init` is not in this list: it changes only the memory, and without `data.drop` its effect is
            // always the same.
            | Op::DataDrop { .. }
    )
}
