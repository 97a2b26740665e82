//! Adds exports and callback functions to a module. Through the exports, a driver accesses the interpreter's internals.
//! New entries are appended to the module's sections and to table 0, so that all existing indices stay valid.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wasm_encoder::{
    BlockType, ConstExpr, ElementSection, Elements, Encode, ExportKind, Function, GlobalSection, GlobalType, MemArg,
    SectionId, ValType,
};
use wasmparser::{Name, Payload, RefType, Table, TableInit, ValType as ParsedType};

use super::{
    RewriteError, allocator,
    function_wrappers::{self, Destructor, Wrapper},
    index_of, inlining, numpy, quickjs,
    sections::{EncodedSection, Exports, SectionChange, Sections, bound, entries, extended_section},
};
use crate::{Callback, ExportList, FunctionId};

/// The name that recipes use for the global with the C stack pointer.
const STACK_POINTER: &str = "__stack_pointer";
/// CPython's function that calls the destructor of an object's type.
const DEALLOC: &str = "_Py_Dealloc";

/// The value type of a saved global.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GlobalKind {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
}

/// A mutable global. Its value is saved with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutableGlobal {
    /// The index of the global.
    pub index: u32,
    /// The export name.
    pub export: String,
    /// The type of the value.
    pub kind: GlobalKind,
}

/// A module that a driver can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootableModule {
    /// The module's binary.
    pub bytes: Vec<u8>,
    /// All mutable globals. Each global is exported.
    pub globals: Vec<MutableGlobal>,
}

/// Exports the items in `list` and every mutable global, adds the callbacks, wraps or patches the listed functions, and
/// removes custom sections.
///
/// All existing exports are preserved. An item that is already exported under its name is not exported again.
///
/// # Errors
/// Fails if the module is invalid, has an unsupported feature, or does not contain the items and functions in `list`.
pub fn with_exports(module: &[u8], list: &ExportList) -> Result<BootableModule, RewriteError> {
    let widened = list.wide_integers.then(|| numpy::widen(module)).transpose()?;
    let located = list.call_sites.then(|| quickjs::locate_calls(module)).transpose()?;
    let module = widened.as_deref().or(located.as_deref()).unwrap_or(module);
    let completed = list.awaited_modules.then(|| quickjs::complete_modules(module)).transpose()?;
    let module = completed.as_deref().unwrap_or(module);
    let prepared = list.two_allocators.then(|| allocator::prepare(module)).transpose()?;
    let (module, table) = prepared.as_ref().map_or((module, 0), |(bytes, table)| (bytes.as_slice(), *table));
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let mut exports = Exports::of(&sections)?;

    let wanted = list.functions.iter().filter(|name| !exports.has(name, ExportKind::Func));
    let wanted: BTreeSet<&str> = wanted.map(String::as_str).collect();
    let framed = list.framed.iter().map(String::as_str);
    let finder = list.path_finder.iter().filter_map(FunctionId::name);
    let hash = list.mixed_hash.as_deref();
    let allocator = allocator::names().filter(|_| list.two_allocators);
    let destructor = list.frequent_destructor.as_deref();
    let inlined = list.inlined_calls.iter().flat_map(|(caller, callees)| callees.iter().chain([caller]));
    let named = wanted.iter().copied().chain(framed).chain(finder).chain(hash).chain(allocator);
    let named = named.chain(destructor).chain(inlined.map(String::as_str));
    let found = function_indices(&sections, &named.collect())?;
    // Add the exports in the recipe's order, without duplicates.
    for name in list.functions.iter().filter(|name| wanted.contains(name.as_str())) {
        let index = *found.get(name.as_str()).ok_or_else(|| RewriteError::NoFunction(name.clone()))?;
        if index >= counts.functions {
            return Err(RewriteError::NoFunction(name.clone()));
        }
        exports.add(name, ExportKind::Func, index)?;
    }
    for (name, &index) in &list.indices {
        if index >= counts.functions {
            return Err(RewriteError::NoItem { kind: "function", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Func, index)?;
    }
    for (name, &index) in &list.globals {
        if index >= counts.globals {
            return Err(RewriteError::NoItem { kind: "global", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Global, index)?;
    }
    for (name, &index) in &list.tables {
        if index >= counts.tables {
            return Err(RewriteError::NoItem { kind: "table", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Table, index)?;
    }

    if let Some(last) = counts.globals.checked_sub(1).filter(|_| list.call_sites) {
        exports.add(quickjs::NAMER, ExportKind::Global, last)?;
    }
    let globals = export_mutable_globals(&sections, &mut exports)?;
    let mut changed = add_callbacks(&sections, &list.callbacks, &mut exports)?;
    changed.push(SectionChange::to(exports.section()));
    let mut bytes = sections.rebuild(changed);
    let mut wrappers = wrappers(&sections, list, &found)?;
    if list.two_allocators {
        wrappers.extend(allocator::wrappers(&sections, table, &found)?);
    }
    if !wrappers.is_empty() {
        bytes = function_wrappers::wrap(&bytes, &wrappers)?;
    }
    if !list.inlined.is_empty() {
        // Wrapped functions were moved to the end.
        let ranges: Vec<_> = list.inlined.iter().copied().chain([(counts.functions, u32::MAX)]).collect();
        let mut chosen = BTreeSet::new();
        for (caller, callees) in &list.inlined_calls {
            for callee in callees {
                chosen.insert((index_of(&found, caller)?, index_of(&found, callee)?));
            }
        }
        bytes = inlining::inline(&bytes, &ranges, &chosen)?;
    }
    Ok(BootableModule { bytes, globals })
}

/// Returns the functions to wrap. `found` contains the indices of the listed functions.
fn wrappers(
    sections: &Sections<'_>,
    list: &ExportList,
    found: &BTreeMap<String, u32>,
) -> Result<BTreeMap<u32, Wrapper>, RewriteError> {
    let index = |name: &String| index_of(found, name);
    let mut wrappers = BTreeMap::new();
    for name in &list.framed {
        let stack_pointer = list
            .globals
            .get(STACK_POINTER)
            .ok_or_else(|| RewriteError::Unsupported(format!("no global is named `{STACK_POINTER}`")))?;
        let destructor = list.frequent_destructor.as_ref().filter(|_| name == DEALLOC);
        let destructor = destructor.map(|name| Destructor::find(sections, index(name)?, name)).transpose()?;
        wrappers.insert(index(name)?, Wrapper::Frame { stack_pointer: *stack_pointer, destructor });
    }
    if let Some(finder) = &list.path_finder {
        let index = match finder {
            FunctionId::Name(name) => index(name)?,
            FunctionId::Index(index) => *index,
        };
        wrappers.insert(index, Wrapper::EmptyPath);
    }
    if let Some(hash) = &list.mixed_hash {
        wrappers.insert(index(hash)?, Wrapper::MixedHash);
    }
    Ok(wrappers)
}

fn export_mutable_globals(sections: &Sections<'_>, exports: &mut Exports) -> Result<Vec<MutableGlobal>, RewriteError> {
    let imported = sections.counts()?.imported_globals;
    let mut saved = Vec::new();
    for (index, global) in (0u32..).zip(sections.globals()?) {
        if !global.mutable {
            continue;
        }
        if index < imported {
            return Err(RewriteError::Unsupported(format!("it imports the mutable global {index}")));
        }
        let kind = match global.content_type {
            ParsedType::I32 => GlobalKind::I32,
            ParsedType::I64 => GlobalKind::I64,
            ParsedType::F32 => GlobalKind::F32,
            ParsedType::F64 => GlobalKind::F64,
            other => {
                let reason = "use i32, i64, f32 or f64";
                return Err(RewriteError::Unsupported(format!("its mutable global {index} is a {other}; {reason}")));
            }
        };
        let export = exports.global_name(index)?;
        saved.push(MutableGlobal { index, export, kind });
    }
    Ok(saved)
}

/// Returns the indices of the functions in `wanted`, as found in the `name` section.
pub(super) fn function_indices(
    sections: &Sections<'_>,
    wanted: &BTreeSet<&str>,
) -> Result<BTreeMap<String, u32>, RewriteError> {
    let mut found = BTreeMap::new();
    let Some(names) = sections.names().filter(|_| !wanted.is_empty()) else {
        return Ok(found);
    };
    for part in names {
        let Name::Function(map) = part? else { continue };
        for naming in map {
            let naming = naming?;
            if wanted.contains(naming.name) && found.insert(naming.name.to_owned(), naming.index).is_some() {
                return Err(RewriteError::AmbiguousFunction(naming.name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// The encoded type `(i32, i32) -> i32`.
const TWO_WORDS_TO_ONE: &[u8] = &[0x60, 2, 0x7f, 0x7f, 1, 0x7f];
/// The encoded type `(i32, i64, i32) -> i64`.
const MAGIC_GETTER: &[u8] = &[0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7e];

/// Maximum initial size of a table that engines and validators accept.
const MAX_SLOTS: u64 = 10_000_000;

/// Adds the callback functions, a table slot for each, and an exported global that contains the slot.
fn add_callbacks(
    sections: &Sections<'_>,
    callbacks: &BTreeMap<String, Callback>,
    exports: &mut Exports,
) -> Result<Vec<SectionChange>, RewriteError> {
    let Ok(count) = u32::try_from(callbacks.len()) else { return Err(too_many()) };
    if count == 0 {
        return Ok(Vec::new());
    }
    let counts = sections.counts()?;
    if counts.imported_memories > 0 || sections.memories()?.first().is_none_or(|memory| memory.memory64) {
        return Err(RewriteError::Unsupported("it defines no 32-bit memory for callbacks".to_owned()));
    }
    if counts.imported_tables > 0 {
        return Err(RewriteError::Unsupported("it imports the table for callbacks".to_owned()));
    }
    let (tables, first_slot) = longer_table(sections, count)?;
    let last = counts.functions.checked_add(count).zip(counts.globals.checked_add(count));
    last.ok_or_else(too_many)?;

    let first_type = type_count(sections)?;
    first_type.checked_add(count).ok_or_else(too_many)?;
    let (mut types, mut declarations, mut bodies, mut globals) =
        (Vec::new(), Vec::new(), Vec::new(), GlobalSection::new());
    for (nth, (name, callback)) in (0u32..).zip(callbacks) {
        types.extend_from_slice(signature(*callback));
        first_type.saturating_add(nth).encode(&mut declarations);
        body(*callback, exports)?.encode(&mut bodies);
        let slot = first_slot.saturating_add(nth).cast_signed();
        let kind = GlobalType { val_type: ValType::I32, mutable: false, shared: false };
        globals.global(kind, &ConstExpr::i32_const(slot));
        exports.add(name, ExportKind::Global, counts.globals.saturating_add(nth))?;
    }
    let functions: Vec<u32> = (0..count).map(|nth| counts.functions.saturating_add(nth)).collect();
    let mut elements = ElementSection::new();
    elements.active(None, &ConstExpr::i32_const(first_slot.cast_signed()), Elements::Functions(functions.into()));

    Ok(vec![
        SectionChange::to(extended_section(sections, SectionId::Type, count, &types)?),
        SectionChange::to(extended_section(sections, SectionId::Function, count, &declarations)?),
        SectionChange::to(tables),
        SectionChange::to(extended_section(sections, SectionId::Global, count, entries(&globals)?.as_slice())?),
        SectionChange::to(extended_section(sections, SectionId::Element, 1, entries(&elements)?.as_slice())?),
        SectionChange::to(extended_section(sections, SectionId::Code, count, &bodies)?),
    ])
}

fn signature(callback: Callback) -> &'static [u8] {
    match callback {
        Callback::LoadWord => TWO_WORDS_TO_ONE,
        Callback::ReadPromise | Callback::ReadAtom => MAGIC_GETTER,
    }
}

fn body(callback: Callback, exports: &Exports) -> Result<Function, RewriteError> {
    let mut function = Function::new([]);
    let mut body = function.instructions();
    let callee = |name: &str| exports.function(name).ok_or_else(|| RewriteError::NoFunction(name.to_owned()));
    match callback {
        Callback::LoadWord => {
            body.local_get(1).i32_load(MemArg { offset: 0, align: 2, memory_index: 0 }).end();
        }
        Callback::ReadPromise => {
            let (state, result) = (callee("JS_PromiseState")?, callee("JS_PromiseResult")?);
            body.local_get(2).if_(BlockType::Result(ValType::I64));
            body.local_get(0).local_get(1).call(result).else_();
            // The `JSValue` of a small integer is the integer itself.
            body.local_get(0).local_get(1).call(state).i64_extend_i32_u().end().end();
        }
        Callback::ReadAtom => {
            body.local_get(0).local_get(1).i32_wrap_i64().call(callee("JS_AtomToString")?).end();
        }
    }
    Ok(function)
}

fn too_many() -> RewriteError {
    RewriteError::Unsupported("it has too many functions, globals, types or table slots".to_owned())
}

/// Returns the table section with `more` additional slots in table 0, and the first new slot.
pub(super) fn longer_table(sections: &Sections<'_>, more: u32) -> Result<(EncodedSection, u32), RewriteError> {
    let unsupported = |what: &str| Err(RewriteError::Unsupported(what.to_owned()));
    let found = sections.0.iter().find_map(|section| match &section.payload {
        Payload::TableSection(reader) => Some((reader.clone(), section.data)),
        _ => None,
    });
    let Some((reader, data)) = found else { return unsupported("it has no table for a callback") };
    let count = reader.count();
    let base = reader.range().start;
    let mut items = reader.into_iter_with_offsets();
    let Some(first) = items.next() else { return unsupported("it has no table for a callback") };
    let Table { ty, init } = first?.1;
    // The offset of the second table, if the module has one.
    let end = items.next().transpose()?.map(|(start, _)| start.saturating_sub(base));
    if ty.element_type != RefType::FUNCREF || ty.table64 || ty.shared || !matches!(init, TableInit::RefNull) {
        return unsupported("its table 0 is not a plain table of functions");
    }
    let minimum = ty.initial.saturating_add(u64::from(more));
    let slot = u32::try_from(ty.initial).ok().filter(|_| minimum <= MAX_SLOTS).ok_or_else(too_many)?;
    // Preserve the number of slots that the table can grow by, if possible.
    let maximum = ty.maximum.map(|maximum| maximum.saturating_add(u64::from(more)).min(u64::from(u32::MAX)));
    let longer = wasm_encoder::TableType {
        element_type: wasm_encoder::RefType::FUNCREF,
        table64: false,
        minimum,
        maximum,
        shared: false,
    };
    let mut content = Vec::new();
    count.encode(&mut content);
    longer.encode(&mut content);
    content.extend_from_slice(end.and_then(|end| data.get(end..)).unwrap_or_default());
    Ok((EncodedSection { id: SectionId::Table.into(), data: content }, slot))
}

/// Returns the number of types. A recursion group is one entry of the section but contains several types.
pub(super) fn type_count(sections: &Sections<'_>) -> Result<u32, RewriteError> {
    let mut count = 0u32;
    for section in &sections.0 {
        if let Payload::TypeSection(groups) = &section.payload {
            for (at, group) in groups.clone().into_iter().enumerate() {
                bound(at, "types")?;
                let types = u32::try_from(group?.types().len()).unwrap_or(u32::MAX);
                count = count.checked_add(types).ok_or_else(too_many)?;
            }
        }
    }
    Ok(count)
}
