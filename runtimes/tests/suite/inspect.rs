//! Reads a module's imports, exports and other properties.

use wasmparser::{ExternalKind, GlobalType, KnownCustom, MemoryType, Parser, Payload, TypeRef};

#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) module: String,
    pub(crate) name: String,
    pub(crate) kind: ExternalKind,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) kind: ExternalKind,
    pub(crate) index: u32,
}

#[derive(Default)]
pub(crate) struct ModuleInfo {
    pub(crate) imports: Vec<Import>,
    pub(crate) exports: Vec<Export>,
    /// The first memory that the module defines.
    pub(crate) memory: Option<MemoryType>,
    /// All globals. Imported globals are first.
    pub(crate) globals: Vec<GlobalType>,
    pub(crate) has_names: bool,
    pub(crate) has_start: bool,
}

pub(crate) fn inspect(module: &[u8]) -> ModuleInfo {
    let mut info = ModuleInfo::default();
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.unwrap();
                    let kind = match import.ty {
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => ExternalKind::Func,
                        TypeRef::Table(_) => ExternalKind::Table,
                        TypeRef::Memory(_) => ExternalKind::Memory,
                        TypeRef::Global(global) => {
                            info.globals.push(global);
                            ExternalKind::Global
                        }
                        TypeRef::Tag(_) => ExternalKind::Tag,
                    };
                    info.imports.push(Import { module: import.module.to_owned(), name: import.name.to_owned(), kind });
                }
            }
            Payload::ExportSection(exports) => info.exports.extend(exports.into_iter().map(|export| {
                let export = export.unwrap();
                Export { name: export.name.to_owned(), kind: export.kind, index: export.index }
            })),
            Payload::MemorySection(memories) => info.memory = memories.into_iter().next().map(Result::unwrap),
            Payload::GlobalSection(globals) => {
                info.globals.extend(globals.into_iter().map(|global| global.unwrap().ty));
            }
            Payload::CustomSection(custom) => info.has_names |= matches!(custom.as_known(), KnownCustom::Name(_)),
            Payload::StartSection { .. } => info.has_start = true,
            _ => {}
        }
    }
    info
}
