//! Replaces a module's initial state with the state of a booted instance.

use std::collections::BTreeMap;

use wasm_encoder::{
    ConstExpr, DataCountSection, DataSection, EntityType, ExportKind, ExportSection, GlobalSection, Ieee32, Ieee64,
    ImportSection, MemorySection, MemoryType, Module, RawSection, SectionId,
};
use wasmparser::{GlobalSectionReader, Operator, Parser, Payload, ValType, Validator};

use super::{
    RewriteError,
    sections::{SectionChange, Sections, entries, extended_section},
};

/// The size of a WebAssembly page in bytes.
const PAGE_BYTES: usize = 65_536;

/// The size of a block in bytes: the granularity of the host's copy-on-write mapping. Blocks of zeros are omitted.
const BLOCK_BYTES: usize = 4096;

/// The longest run of zeros, in bytes, that is written instead of omitted. A data segment costs an engine more than a
/// few zeros, and a module can have at most 100,000 segments.
const GAP_BYTES: usize = 16 * BLOCK_BYTES;

/// The value of a mutable global, as raw bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalValue {
    /// An `i32`.
    I32(u32),
    /// An `i64`.
    I64(u64),
    /// An `f32`.
    F32(u32),
    /// An `f64`.
    F64(u64),
}

impl GlobalValue {
    /// Returns the value's bits, zero-extended to 64.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::I32(bits) | Self::F32(bits) => bits.into(),
            Self::I64(bits) | Self::F64(bits) => bits,
        }
    }
}

/// The state of a booted instance.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The contents of the linear memory.
    pub memory: &'a [u8],
    /// The values of mutable globals, by index. Other globals have their initial values.
    pub globals: &'a [(u32, GlobalValue)],
}

/// Replaces a module's initial memory and globals with `image`, and removes its start function and custom sections.
///
/// # Errors
/// Returns [`RewriteError::Unsupported`] for modules with other state: passive data segments, modified tables, shared
/// memory or several memories. Returns [`RewriteError::Image`] or [`RewriteError::Global`] if the image does not match
/// the module.
pub fn with_image(module: &[u8], image: &Image<'_>) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let mut memory = MemorySection::new();
    memory.memory(encoded_memory(&sections, Some(image.memory))?);
    check_code(module)?;

    let data = data(image.memory)?;
    let mut changed = vec![SectionChange::removed(SectionId::Start)];
    if sections.has(SectionId::DataCount) {
        changed.push(SectionChange::to(DataCountSection { count: data.len() }));
    }
    changed.push(SectionChange::to(data));
    changed.push(SectionChange::to(memory));
    changed.extend(saved_globals(&sections, image.globals)?.map(SectionChange::to));
    let rewritten = sections.rebuild(changed);
    Validator::new().validate_all(&rewritten)?;
    Ok(rewritten)
}

/// Returns the nonzero ranges of a memory as data segments.
pub(super) fn data(memory: &[u8]) -> Result<DataSection, RewriteError> {
    let mut data = DataSection::new();
    for run in runs(memory) {
        let offset = u32::try_from(run.0).map_err(|_| RewriteError::Image("it is larger than 4 GiB".to_owned()))?;
        let bytes = memory.get(run.0..run.1).unwrap_or_default();
        // A constant expression encodes an address above 2 GiB as a negative number.
        data.active(0, &ConstExpr::i32_const(offset.cast_signed()), bytes.iter().copied());
    }
    Ok(data)
}

/// Returns the type of the only memory that the module defines. If `image` is given, the minimum is the image's size.
pub(super) fn encoded_memory(sections: &Sections<'_>, image: Option<&[u8]>) -> Result<MemoryType, RewriteError> {
    let unsupported = |what: &str| Err(RewriteError::Unsupported(what.to_owned()));
    let counts = sections.counts()?;
    if counts.imported_memories > 0 {
        return unsupported("it imports its memory");
    }
    let memories = sections.memories()?;
    let [memory] = memories.as_slice() else {
        return unsupported("it does not have exactly one memory");
    };
    if memory.memory64 || memory.shared || memory.page_size_log2.is_some() {
        return unsupported("its memory is shared or 64-bit, or has a custom page size");
    }
    let minimum = match image {
        Some(image) => pages(image, memory)?,
        None => memory.initial,
    };
    Ok(MemoryType { minimum, maximum: memory.maximum, memory64: false, shared: false, page_size_log2: None })
}

/// Returns the number of pages in an image. Fails if the image does not fit the memory.
fn pages(image: &[u8], memory: &wasmparser::MemoryType) -> Result<u64, RewriteError> {
    if !image.len().is_multiple_of(PAGE_BYTES) {
        return Err(RewriteError::Image(format!(
            "its length of {} bytes is not a multiple of the page size, 64 KiB",
            image.len()
        )));
    }
    let pages = u64::try_from(image.len() / PAGE_BYTES).unwrap_or(u64::MAX);
    let max = memory.maximum.unwrap_or(65_536);
    if pages < memory.initial || pages > max {
        return Err(RewriteError::Image(format!("it has {pages} pages; expected {} to {max}", memory.initial)));
    }
    Ok(pages)
}

/// Returns the global section with the given initial values, or `None` if the module has no globals.
fn saved_globals(
    sections: &Sections<'_>,
    values: &[(u32, GlobalValue)],
) -> Result<Option<GlobalSection>, RewriteError> {
    let imported = sections.counts()?.imported_globals;
    let reader = sections.0.iter().find_map(|section| match &section.payload {
        Payload::GlobalSection(reader) => Some((reader.clone(), section.data)),
        _ => None,
    });
    let defined = reader.as_ref().map_or(0, |(reader, _)| reader.count());
    let mut by_index = BTreeMap::new();
    for (index, value) in values {
        let wrong = |problem: &str| Err(RewriteError::Global { index: *index, problem: problem.to_owned() });
        if *index < imported || *index - imported >= defined {
            return wrong("the module defines no such global");
        }
        if by_index.insert(*index, *value).is_some() {
            return wrong("it has two values");
        }
    }
    reader.map(|(reader, data)| encode_globals(reader, data, imported, &by_index)).transpose()
}

fn encode_globals(
    reader: GlobalSectionReader<'_>,
    data: &[u8],
    imported: u32,
    values: &BTreeMap<u32, GlobalValue>,
) -> Result<GlobalSection, RewriteError> {
    let base = reader.range().start;
    let mut section = GlobalSection::new();
    for (index, item) in (imported..).zip(reader.into_iter_with_offsets()) {
        let (start, global) = item?;
        let Some(value) = values.get(&index) else {
            let end = global.init_expr.get_binary_reader().range().end;
            section.raw(data.get(start.saturating_sub(base)..end.saturating_sub(base)).unwrap_or_default());
            continue;
        };
        let wrong = |problem: String| RewriteError::Global { index, problem };
        if !global.ty.mutable || global.ty.shared {
            return Err(wrong("it is immutable".to_owned()));
        }
        let (val_type, init) = match (global.ty.content_type, *value) {
            (ValType::I32, GlobalValue::I32(bits)) => {
                (wasm_encoder::ValType::I32, ConstExpr::i32_const(bits.cast_signed()))
            }
            (ValType::I64, GlobalValue::I64(bits)) => {
                (wasm_encoder::ValType::I64, ConstExpr::i64_const(bits.cast_signed()))
            }
            (ValType::F32, GlobalValue::F32(bits)) => {
                (wasm_encoder::ValType::F32, ConstExpr::f32_const(Ieee32::new(bits)))
            }
            (ValType::F64, GlobalValue::F64(bits)) => {
                (wasm_encoder::ValType::F64, ConstExpr::f64_const(Ieee64::new(bits)))
            }
            (is, _) => return Err(wrong(format!("it is an {is}"))),
        };
        section.global(wasm_encoder::GlobalType { val_type, mutable: true, shared: false }, &init);
    }
    Ok(section)
}

/// Rejects code whose instances have state outside memory and globals.
pub(super) fn check_code(module: &[u8]) -> Result<(), RewriteError> {
    let unsupported = |what: &str| Err(RewriteError::Unsupported(what.to_owned()));
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::DataSection(segments) => {
                for segment in segments {
                    if matches!(segment?.kind, wasmparser::DataKind::Passive) {
                        return unsupported("it has passive data segments");
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let mut operators = body.get_operators_reader()?;
                while !operators.eof() {
                    match operators.read()? {
                        Operator::MemoryInit { .. } | Operator::DataDrop { .. } => {
                            return unsupported("it uses `memory.init` or `data.drop`");
                        }
                        Operator::TableSet { .. }
                        | Operator::TableGrow { .. }
                        | Operator::TableFill { .. }
                        | Operator::TableCopy { .. }
                        | Operator::TableInit { .. }
                        | Operator::ElemDrop { .. } => {
                            return unsupported("it changes its tables at run time");
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the nonzero ranges of the image, in whole blocks. Merges adjacent and nearby ranges.
fn runs(image: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let zero = [0u8; BLOCK_BYTES];
    let mut start = 0;
    for block in image.chunks(BLOCK_BYTES) {
        let end = start + block.len();
        if zero.get(..block.len()) != Some(block) {
            match runs.last_mut() {
                Some((_, last)) if start - *last <= GAP_BYTES => *last = end,
                _ => runs.push((start, end)),
            }
        }
        start = end;
    }
    runs
}

/// The module name and field name of the memory import.
pub const MEMORY_IMPORT: (&str, &str) = ("glovebox", "memory");

/// The export name of the memory in a memory module.
pub const MEMORY_EXPORT: &str = "memory";

/// Returns the module's code without its data. The code imports its memory as [`MEMORY_IMPORT`] and exports the memory
/// under its original names.
///
/// Does not validate the code, because the compiler validates it.
///
/// # Errors
/// Fails if the module has other state, as described for [`with_image`](super::with_image).
pub fn code_of(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let memory = encoded_memory(&sections, None)?;
    check_code(module)?;

    let mut import = ImportSection::new();
    let (from, name) = MEMORY_IMPORT;
    import.import(from, name, EntityType::Memory(memory));
    Ok(sections.rebuild(vec![
        SectionChange::to(extended_section(&sections, SectionId::Import, 1, &entries(&import)?)?),
        SectionChange::removed(SectionId::Memory),
        SectionChange::removed(SectionId::Data),
        SectionChange::removed(SectionId::DataCount),
    ]))
}

/// Returns a memory module for the module's [code](code_of), with the module's initial data.
///
/// # Errors
/// Fails if the module is invalid.
pub fn initial_memory_of(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let memory = encoded_memory(&sections, None)?;
    let data = sections.0.iter().find(|section| section.id == u8::from(SectionId::Data));
    let made = match data {
        Some(data) => module_of(memory, &RawSection { id: data.id, data: data.data }),
        None => module_of(memory, &DataSection::new()),
    };
    Validator::new().validate_all(&made)?;
    Ok(made)
}

/// Returns a memory module for the module's [code](code_of), with the given contents.
///
/// # Errors
/// Fails if the module is invalid, or `content` does not match its memory.
pub fn memory_of(module: &[u8], content: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let memory = encoded_memory(&sections, Some(content))?;
    let made = module_of(memory, &data(content)?);
    Validator::new().validate_all(&made)?;
    Ok(made)
}

fn module_of(memory: MemoryType, data: &impl wasm_encoder::Section) -> Vec<u8> {
    let (mut memories, mut exports) = (MemorySection::new(), ExportSection::new());
    memories.memory(memory);
    exports.export(MEMORY_EXPORT, ExportKind::Memory, 0);
    let mut module = Module::new();
    module.section(&memories).section(&exports).section(data);
    module.finish()
}
