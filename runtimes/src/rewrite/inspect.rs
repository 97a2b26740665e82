//! What a module is, without compiling it.

use wasm_encoder::SectionId;
use wasmparser::{ExternalKind, Payload, TypeRef, ValType};

use super::RewriteError;
use super::sections::{Sections, bound};

/// What an import or export is.
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

/// One import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The module imported from, such as `wasi_snapshot_preview1`.
    pub module: String,
    /// The item's name there.
    pub name: String,
    /// What it is.
    pub kind: ItemKind,
}

/// One export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ItemKind,
    /// Its index among its kind.
    pub index: u32,
}

/// One global, imported ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// Its index.
    pub index: u32,
    /// Whether code can change it.
    pub mutable: bool,
    /// Whether it holds an `i32`, as a stack pointer does.
    pub is_i32: bool,
}

/// The module's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What it starts with, in 64 KiB pages.
    pub minimum_pages: u64,
    /// What it may grow to, in 64 KiB pages.
    pub maximum_pages: Option<u64>,
    /// Whether threads may share it.
    pub shared: bool,
    /// Whether it is addressed with 64 bits.
    pub is_64: bool,
}

/// How a WASI module is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleKind {
    /// By `_start`, once.
    Command,
    /// By `_initialize`, once, then by any export any number of times.
    Reactor,
    /// By neither.
    Library,
}

/// What a module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// How it is entered.
    pub kind: ModuleKind,
    /// What it needs.
    pub imports: Vec<Import>,
    /// What it offers.
    pub exports: Vec<Export>,
    /// Its first own memory, if it has one.
    pub memory: Option<MemoryInfo>,
    /// Its globals.
    pub globals: Vec<GlobalInfo>,
    /// Whether a `name` section says what its functions are called.
    pub has_names: bool,
    /// Whether it has a start function.
    pub has_start: bool,
}

impl ModuleInfo {
    /// Whether it imports from WASI preview 1 and nothing else, so that it can run at all.
    pub fn needs_only_wasi(&self) -> bool {
        self.imports.iter().all(|import| import.module == "wasi_snapshot_preview1" && import.kind == ItemKind::Function)
    }
}

/// Reads what a module is. Its code is not looked at.
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
