//! A module as a list of sections.

use std::collections::BTreeMap;

use wasm_encoder::{Encode, ExportKind, ExportSection, Module, RawSection, SectionId};
use wasmparser::{
    BinaryReader, ElementItems, ElementKind, Encoding, ExternalKind, FromReader, GlobalType, Import, KnownCustom,
    MemoryType, NameSectionReader, Operator, Parser, Payload, SectionLimited, TypeRef,
};

use super::RewriteError;

/// Maximum number of sections. Valid modules have at most 13 standard sections and a few dozen custom sections. The
/// limit keeps other modules from exhausting memory.
const MAX_SECTIONS: usize = 10_000;

/// Maximum number of imports, exports or globals to read. The largest known interpreter has a few hundred.
pub(super) const MAX_ITEMS: usize = 100_000;

/// A section: its ID, its contents, and its parsed form.
pub(super) struct Section<'a> {
    pub(super) id: u8,
    pub(super) data: &'a [u8],
    pub(super) payload: Payload<'a>,
}

/// The numbers of functions, tables, memories and globals, including imported ones.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) functions: u32,
    pub(super) tables: u32,
    pub(super) memories: u32,
    pub(super) globals: u32,
    pub(super) imported_memories: u32,
    pub(super) imported_globals: u32,
    pub(super) imported_tables: u32,
}

pub(super) struct Sections<'a>(pub(super) Vec<Section<'a>>);

impl<'a> Sections<'a> {
    pub(super) fn read(module: &'a [u8]) -> Result<Self, RewriteError> {
        let mut sections = Vec::new();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            if let Payload::Version { encoding: Encoding::Component, .. } = payload {
                return Err(RewriteError::Component);
            }
            // The end marker and the entries of the code section are not sections.
            let Some((id, range)) = payload.as_section() else {
                continue;
            };
            if matches!(payload, Payload::CodeSectionEntry(_)) {
                continue;
            }
            if sections.len() >= MAX_SECTIONS {
                return Err(RewriteError::Unsupported(format!("it has more than {MAX_SECTIONS} sections")));
            }
            let data = module.get(range).unwrap_or_default();
            sections.push(Section { id, data, payload });
        }
        Ok(Self(sections))
    }

    /// Reassembles a module without custom sections. Changed sections replace the original ones, and other sections are
    /// copied.
    pub(super) fn rebuild(&self, changed: Vec<SectionChange>) -> Vec<u8> {
        self.reassemble(changed, false)
    }

    /// Like [`Sections::rebuild`], but preserves custom sections.
    pub(super) fn rebuild_all(&self, changed: Vec<SectionChange>) -> Vec<u8> {
        self.reassemble(changed, true)
    }

    fn reassemble(&self, mut changed: Vec<SectionChange>, keep_custom: bool) -> Vec<u8> {
        let mut module = Module::new();
        changed.sort_by_key(|new| order(new.id));
        for section in &self.0 {
            if section.id == u8::from(SectionId::Custom) {
                if keep_custom {
                    module.section(&RawSection { id: section.id, data: section.data });
                }
                continue;
            }
            // Insert new sections before the first section that must follow them.
            while let Some(at) = changed.iter().position(|new| order(new.id) < order(section.id)) {
                changed.remove(at).append(&mut module);
            }
            match changed.iter().position(|new| new.id == section.id) {
                Some(at) => changed.remove(at).append(&mut module),
                None => _ = module.section(&RawSection { id: section.id, data: section.data }),
            }
        }
        changed.into_iter().for_each(|new| new.append(&mut module));
        module.finish()
    }

    pub(super) fn has(&self, id: SectionId) -> bool {
        self.0.iter().any(|section| section.id == u8::from(id))
    }

    /// Returns the entries of the sections that `reader` selects.
    pub(super) fn items<T: FromReader<'a>>(
        &self,
        what: &str,
        reader: impl Fn(&Payload<'a>) -> Option<SectionLimited<'a, T>>,
    ) -> Result<Vec<T>, RewriteError> {
        let mut items = Vec::new();
        for item in self.0.iter().filter_map(|section| reader(&section.payload)).flatten() {
            bound(items.len(), what)?;
            items.push(item?);
        }
        Ok(items)
    }

    pub(super) fn imports(&self) -> Result<Vec<Import<'a>>, RewriteError> {
        let mut imports = Vec::new();
        for section in &self.0 {
            if let Payload::ImportSection(reader) = &section.payload {
                for import in reader.clone().into_imports() {
                    bound(imports.len(), "imports")?;
                    imports.push(import?);
                }
            }
        }
        Ok(imports)
    }

    pub(super) fn counts(&self) -> Result<Counts, RewriteError> {
        let mut counts = Counts::default();
        for import in self.imports()? {
            match import.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => counts.functions += 1,
                TypeRef::Table(_) => counts.imported_tables += 1,
                TypeRef::Memory(_) => counts.imported_memories += 1,
                TypeRef::Global(_) => counts.imported_globals += 1,
                TypeRef::Tag(_) => {}
            }
        }
        for section in &self.0 {
            match &section.payload {
                Payload::FunctionSection(functions) => {
                    counts.functions = counts.functions.saturating_add(functions.count());
                }
                Payload::TableSection(tables) => counts.tables = counts.tables.saturating_add(tables.count()),
                Payload::MemorySection(memories) => counts.memories = counts.memories.saturating_add(memories.count()),
                Payload::GlobalSection(globals) => counts.globals = counts.globals.saturating_add(globals.count()),
                _ => {}
            }
        }
        counts.tables = counts.tables.saturating_add(counts.imported_tables);
        counts.memories = counts.memories.saturating_add(counts.imported_memories);
        counts.globals = counts.globals.saturating_add(counts.imported_globals);
        Ok(counts)
    }

    /// Returns the types of all globals, in index order.
    pub(super) fn globals(&self) -> Result<Vec<GlobalType>, RewriteError> {
        let imported = self.imports()?.into_iter().filter_map(|import| match import.ty {
            TypeRef::Global(global) => Some(global),
            _ => None,
        });
        let defined = self.items("globals", |payload| match payload {
            Payload::GlobalSection(globals) => Some(globals.clone()),
            _ => None,
        })?;
        Ok(imported.chain(defined.into_iter().map(|global| global.ty)).collect())
    }

    /// Returns the types of the memories that the module defines.
    pub(super) fn memories(&self) -> Result<Vec<MemoryType>, RewriteError> {
        self.items("memories", |payload| match payload {
            Payload::MemorySection(memories) => Some(memories.clone()),
            _ => None,
        })
    }

    pub(super) fn exports(&self) -> Result<Vec<wasmparser::Export<'a>>, RewriteError> {
        self.items("exports", |payload| match payload {
            Payload::ExportSection(exports) => Some(exports.clone()),
            _ => None,
        })
    }

    /// Returns a function's slot in table 0.
    pub(super) fn table_slot(&self, function: u32) -> Result<Option<i32>, RewriteError> {
        for section in &self.0 {
            let Payload::ElementSection(segments) = &section.payload else { continue };
            for segment in segments.clone() {
                let segment = segment?;
                let (ElementKind::Active { offset_expr, .. }, ElementItems::Functions(items)) =
                    (segment.kind, segment.items)
                else {
                    continue;
                };
                let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else { continue };
                for (slot, item) in (value..).zip(items) {
                    if item? == function {
                        return Ok(Some(slot));
                    }
                }
            }
        }
        Ok(None)
    }

    pub(super) fn names(&self) -> Option<NameSectionReader<'a>> {
        self.0.iter().find_map(|section| match &section.payload {
            Payload::CustomSection(custom) => match custom.as_known() {
                KnownCustom::Name(names) => Some(names),
                _ => None,
            },
            _ => None,
        })
    }
}

type Append = Box<dyn FnOnce(&mut Module)>;

/// A section that replaces a module's section, or is added to the module. A change without contents removes the
/// module's section.
pub(super) struct SectionChange {
    id: u8,
    content: Option<Append>,
}

impl SectionChange {
    pub(super) fn to(section: impl wasm_encoder::Section + 'static) -> Self {
        Self { id: section.id(), content: Some(Box::new(move |module| _ = module.section(&section))) }
    }

    pub(super) fn removed(id: SectionId) -> Self {
        Self { id: id.into(), content: None }
    }

    fn append(self, module: &mut Module) {
        if let Some(content) = self.content {
            content(module);
        }
    }
}

/// Returns the sort key of a section. The tag section precedes the globals and the data count precedes the code,
/// despite their higher IDs.
fn order(id: u8) -> u8 {
    match id {
        13 => 51,
        12 => 95,
        _ => id.saturating_mul(10),
    }
}

pub(super) fn bound(count: usize, what: &str) -> Result<(), RewriteError> {
    if count >= MAX_ITEMS {
        return Err(RewriteError::Unsupported(format!("it has more than {MAX_ITEMS} {what}")));
    }
    Ok(())
}

pub(super) fn export_kind(kind: ExternalKind) -> ExportKind {
    match kind {
        ExternalKind::Func | ExternalKind::FuncExact => ExportKind::Func,
        ExternalKind::Table => ExportKind::Table,
        ExternalKind::Memory => ExportKind::Memory,
        ExternalKind::Global => ExportKind::Global,
        ExternalKind::Tag => ExportKind::Tag,
    }
}

/// Removes a module's custom sections (names, debug information, producers). Custom sections are not needed at run
/// time, and would slow down each compilation.
///
/// # Errors
/// Fails if the bytes are not a well-formed core module.
pub fn strip(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    Ok(Sections::read(module)?.rebuild(Vec::new()))
}

pub(super) struct EncodedSection {
    pub(super) id: u8,
    pub(super) data: Vec<u8>,
}

impl Encode for EncodedSection {
    fn encode(&self, sink: &mut Vec<u8>) {
        self.data.encode(sink);
    }
}

impl wasm_encoder::Section for EncodedSection {
    fn id(&self) -> u8 {
        self.id
    }
}

/// Splits a section's contents into the number of entries and the encoded entries.
fn split(data: &[u8]) -> Result<(u32, &[u8]), RewriteError> {
    let mut reader = BinaryReader::new(data, 0);
    let count = reader.read_var_u32()?;
    Ok((count, data.get(reader.original_position()..).unwrap_or_default()))
}

/// Returns the encoded entries of a new section, without the number of entries.
pub(super) fn entries(section: &impl Encode) -> Result<Vec<u8>, RewriteError> {
    let mut encoded = Vec::new();
    section.encode(&mut encoded);
    // Skip the length of the section.
    let (_, content) = split(&encoded)?;
    Ok(split(content)?.1.to_vec())
}

/// Returns a section with additional entries, or a new section if the module does not have one.
pub(super) fn extended_section(
    sections: &Sections<'_>,
    id: SectionId,
    more: u32,
    entries: &[u8],
) -> Result<EncodedSection, RewriteError> {
    let id = u8::from(id);
    let (count, before) = match sections.0.iter().find(|section| section.id == id) {
        Some(section) => split(section.data)?,
        None => (0, &[][..]),
    };
    let mut data = Vec::new();
    count.checked_add(more).ok_or_else(|| too_long(id))?.encode(&mut data);
    data.extend_from_slice(before);
    data.extend_from_slice(entries);
    Ok(EncodedSection { id, data })
}

fn too_long(id: u8) -> RewriteError {
    RewriteError::Unsupported(format!("its section {id} has too many entries"))
}

/// The prefix of export names for globals that the recipe does not name. The global's index follows the prefix.
const GLOBAL_PREFIX: &str = "__glovebox_global_";

/// The exports of a module, in order.
#[derive(Default)]
pub(super) struct Exports {
    list: Vec<(String, ExportKind, u32)>,
    by_name: BTreeMap<String, (ExportKind, u32)>,
    /// The export name of each exported global, by index.
    globals: BTreeMap<u32, String>,
}

impl Exports {
    pub(super) fn of(sections: &Sections<'_>) -> Result<Self, RewriteError> {
        let mut exports = Self::default();
        for export in sections.exports()? {
            exports.push(export.name, export_kind(export.kind), export.index);
        }
        Ok(exports)
    }

    fn push(&mut self, name: &str, kind: ExportKind, index: u32) {
        self.list.push((name.to_owned(), kind, index));
        self.by_name.insert(name.to_owned(), (kind, index));
        if kind == ExportKind::Global {
            self.globals.insert(index, name.to_owned());
        }
    }

    pub(super) fn has(&self, name: &str, kind: ExportKind) -> bool {
        self.by_name.get(name).is_some_and(|(of, _)| *of == kind)
    }

    /// Returns an exported function's index.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).and_then(|(kind, index)| (*kind == ExportKind::Func).then_some(*index))
    }

    /// Returns a global's export name. Exports the global if necessary.
    pub(super) fn global_name(&mut self, index: u32) -> Result<String, RewriteError> {
        if let Some(name) = self.globals.get(&index) {
            return Ok(name.clone());
        }
        let name = format!("{GLOBAL_PREFIX}{index}");
        self.add(&name, ExportKind::Global, index)?;
        Ok(name)
    }

    pub(super) fn add(&mut self, name: &str, kind: ExportKind, index: u32) -> Result<(), RewriteError> {
        match self.by_name.get(name) {
            Some(there) if *there == (kind, index) => Ok(()),
            Some(_) => Err(RewriteError::ExportTaken(name.to_owned())),
            None => {
                self.push(name, kind, index);
                Ok(())
            }
        }
    }

    pub(super) fn section(&self) -> ExportSection {
        self.section_with(|function| function)
    }

    /// Like [`Exports::section`], but renumbers functions.
    pub(super) fn section_with(&self, renumber: impl Fn(u32) -> u32) -> ExportSection {
        let mut section = ExportSection::new();
        for (name, kind, index) in &self.list {
            section.export(name, *kind, if *kind == ExportKind::Func { renumber(*index) } else { *index });
        }
        section
    }
}

/// Returns `true` if a module's code can change only one memory and the instance's globals, so that restoring them
/// resets the instance.
///
/// Tables and passive segments are also part of an instance's state. An embedder cannot restore them, because it cannot
/// determine whether a segment was dropped.
///
/// # Errors
/// Fails if the bytes are not a well-formed core module.
pub fn changes_only_memory_and_globals(module: &[u8]) -> Result<bool, RewriteError> {
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let imported = [counts.imported_tables, counts.imported_memories, counts.imported_globals];
    if counts.memories > 1 || imported != [0; 3] {
        return Ok(false);
    }
    for section in &sections.0 {
        let Payload::CodeSectionStart { range, .. } = &section.payload else { continue };
        let reader = BinaryReader::new(module.get(range.clone()).unwrap_or_default(), range.start);
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
            // `memory.init` is not in this list, because it changes only the memory. Without `data.drop`,
            // `memory.init` always has the same effect.
            | Op::DataDrop { .. }
    )
}
