//! Splits an interpreter's code into a base and parts. An engine compiles and loads a part when one of its functions is
//! first called.
//!
//! The base includes all functions that its functions call directly. The base can therefore call a part's functions
//! only through the table. Each function of a part has a stub in the table, which loads the part and repeats the call.
//! When a part is instantiated, its functions replace the stubs in the table. Parts share the base's memory, table,
//! globals and tags.
//!
//! The engine refunds the fuel that a stub uses. A script therefore uses the same fuel with and without parts.

use std::collections::{BTreeMap, BTreeSet};

use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, Encode, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, ImportSection, Module, RawSection, SectionId, StartSection,
};
use wasmparser::{
    BinaryReader, ElementItems, ElementKind, ExternalKind, FunctionBody, Operator, Payload, TypeRef,
    ValType as ParsedType,
};

use super::{
    RewriteError,
    exports::longer_table,
    function_wrappers::{FunctionType, bodies_of, defined_functions, function_types},
    image::MEMORY_IMPORT,
    sections::{Exports, SectionChange, Sections, entries, extended_section},
};
use crate::CodePart;

/// The module name of all of a part's imports, except the memory.
pub const BASE_IMPORT: &str = "base";

/// The export name of an immutable global with the table slot of the loader, a function `(part: i32, fuel: i32) -> ()`.
/// The loader loads a part and all parts before it. `fuel` is the fuel that a stub uses in addition to the call that it
/// replaces.
pub const LOADER_EXPORT: &str = "__glovebox_loader";

/// The export name of table 0.
const TABLE_EXPORT: &str = "__glovebox_table";

/// The prefix of the names under which the base and the parts export functions to later parts. The function's index in
/// the undivided code follows the prefix.
const FUNCTION_PREFIX: &str = "__glovebox_function_";

/// The prefix of the names under which the base exports tags. The tag's index follows the prefix.
const TAG_PREFIX: &str = "__glovebox_tag_";

/// Maximum fuel that a stub uses: it passes up to 1,000 parameters twice.
pub const MAX_STUB_FUEL: u32 = 2 * 1000 + STUB_FUEL;

/// Fuel of a stub without parameters: the entries of two functions, five constants, the call to the loader, and one of
/// the two calls that replace the original call. Each parameter costs two more units.
const STUB_FUEL: u32 = 10;

/// Returns one part of the code that [`code_of`](super::code_of) returns. `number` counts from zero. Part zero is the
/// base, which is always loaded and has the exports of the undivided code. Each other part imports from the parts
/// before it.
///
/// Does not validate the part, because the compiler validates it.
///
/// # Errors
/// Returns [`RewriteError::Unsupported`] if the code's table differs from the tables that linkers generate. Returns
/// [`RewriteError::NoFunctions`] if `parts` lists a function that the module does not have.
pub fn part_of(code: &[u8], parts: &[CodePart], number: usize) -> Result<Vec<u8>, RewriteError> {
    let code = Code::read(code)?;
    let owners = code.owners(parts)?;
    if number == BASE { code.base(&owners) } else { code.part(&owners, number) }
}

/// The number of the part that each function belongs to, by function index.
type Owners = Vec<usize>;

const BASE: usize = 0;

/// A parsed module of code, with the information for splitting it.
struct Code<'a> {
    sections: Sections<'a>,
    /// The type of each function. Imported functions are first.
    types: Vec<u32>,
    imported: usize,
    /// The type of the imported memory.
    memory: wasmparser::MemoryType,
    /// The type index of each tag.
    tags: Vec<u32>,
    /// The bodies of the defined functions, without their length prefixes.
    bodies: Vec<&'a [u8]>,
    /// The indices of the functions that each function calls directly.
    calls: Vec<Vec<u32>>,
    /// The index of the function in each slot of table 0.
    slots: BTreeMap<u32, u32>,
}

impl<'a> Code<'a> {
    fn read(code: &'a [u8]) -> Result<Self, RewriteError> {
        let sections = Sections::read(code)?;
        let (mut types, mut memory) = (Vec::new(), None);
        for import in sections.imports()? {
            match import.ty {
                TypeRef::Func(kind) => types.push(kind),
                TypeRef::Memory(imported) => memory = Some(imported),
                _ => {
                    return Err(unsupported(format!(
                        "it imports `{}.{}`; only functions and one memory can be imported",
                        import.module, import.name
                    )));
                }
            }
        }
        let tags = sections.items("tags", |payload| match payload {
            Payload::TagSection(tags) => Some(tags.clone()),
            _ => None,
        })?;
        let tags = tags.into_iter().map(|tag| tag.func_type_idx).collect();
        let memory = memory.ok_or_else(|| unsupported("it does not import its memory"))?;
        let imported = types.len();
        types.extend(defined_functions(&sections)?);
        let bodies = bodies_of(&sections)?;
        let slots = slots(&sections)?;
        let mut calls = vec![Vec::new(); imported];
        for body in &bodies {
            calls.push(direct_calls(body)?);
        }
        Ok(Self { sections, types, imported, memory, tags, bodies, calls, slots })
    }

    /// Assigns each function to the first part that needs it. The last part receives the functions that no part lists
    /// or reaches through calls.
    fn owners(&self, parts: &[CodePart]) -> Result<Owners, RewriteError> {
        let mut owners: Vec<Option<usize>> = vec![None; self.types.len()];
        let exports = self.sections.exports()?.into_iter();
        let exported = exports.filter(|export| export.kind == ExternalKind::Func).map(|export| export.index);
        let imported = u32::try_from(self.imported).unwrap_or(u32::MAX);
        let mut pending: Vec<u32> = exported.chain(self.started()).chain(0..imported).collect();
        for (part, named) in parts.iter().enumerate() {
            for (first, end) in &named.functions {
                if first > end || to_usize(*end) > self.types.len() {
                    return Err(RewriteError::NoFunctions { first: *first, end: *end, count: self.types.len() });
                }
                pending.extend(*first..*end);
            }
            while let Some(function) = pending.pop() {
                let Some(owner @ None) = owners.get_mut(to_usize(function)) else { continue };
                *owner = Some(part);
                pending.extend(self.calls.get(to_usize(function)).into_iter().flatten());
            }
        }
        let last = parts.len().saturating_sub(1);
        Ok(owners.into_iter().map(|owner| owner.unwrap_or(last)).collect())
    }

    /// Returns the base module: the base's functions, and a stub for each function of another part that is in the
    /// table.
    fn base(&self, owners: &Owners) -> Result<Vec<u8>, RewriteError> {
        let (table, loader) = longer_table(&self.sections, 1)?;
        let mut types = NewTypes::of(&self.sections)?;
        let loader_type = types.add(&[ParsedType::I32; 2], &[])?;

        let in_table: BTreeMap<u32, u32> = self.slots.iter().rev().map(|(slot, function)| (*function, *slot)).collect();
        let stays = (0u32..).zip(owners).filter(|(index, owner)| **owner == BASE || in_table.contains_key(index));
        let indices: BTreeMap<u32, u32> = stays.map(|(index, _)| index).zip(0u32..).collect();
        let (mut functions, mut code) = (FunctionSection::new(), CodeSection::new());
        let mut forwarders =
            Forwarders { first: u32::try_from(indices.len()).unwrap_or(u32::MAX), ..Forwarders::default() };
        for index in indices.keys().skip(self.imported) {
            let kind = self.type_of(*index);
            functions.function(kind);
            let owner = owners.get(to_usize(*index)).copied().unwrap_or_default();
            let slot = in_table.get(index).filter(|_| owner != BASE);
            let Some(slot) = slot else {
                code.raw(&renumbered(self.body(*index), &indices)?);
                continue;
            };
            let (parameters, results) = types.function(kind)?;
            let forwarder = match forwarders.indices.get(&(kind, owner)) {
                Some(forwarder) => *forwarder,
                None => {
                    let with_slot: Vec<_> = parameters.iter().copied().chain([ParsedType::I32]).collect();
                    let body = forwarder_body(owner, parameters.len(), kind, (loader, loader_type));
                    forwarders.add((kind, owner), types.add(&with_slot, &results)?, body)
                }
            };
            let mut stub = Function::new([]);
            let mut stub_body = stub.instructions();
            for (parameter, _) in (0u32..).zip(&parameters) {
                stub_body.local_get(parameter);
            }
            stub_body.i32_const(slot.cast_signed()).return_call(forwarder).end();
            code.function(&stub);
        }
        for (kind, body) in &forwarders.functions {
            functions.function(*kind);
            code.function(body);
        }

        let mut global = wasm_encoder::GlobalSection::new();
        let kind = wasm_encoder::GlobalType { val_type: wasm_encoder::ValType::I32, mutable: false, shared: false };
        global.global(kind, &ConstExpr::i32_const(loader.cast_signed()));
        let mut changed = vec![
            SectionChange::to(extended_section(&self.sections, SectionId::Type, types.added, &types.encoded)?),
            SectionChange::to(functions),
            SectionChange::to(table),
            SectionChange::to(extended_section(&self.sections, SectionId::Global, 1, &entries(&global)?)?),
            SectionChange::to(self.exports(owners, &indices)?),
            SectionChange::to(elements(&self.slots, &indices)),
            SectionChange::to(code),
        ];
        if let Some(start) = self.started() {
            let function_index = indices.get(&start).copied().unwrap_or_default();
            changed.push(SectionChange::to(StartSection { function_index }));
        }
        Ok(self.sections.rebuild(changed))
    }

    /// Returns the base's exports. `indices` maps the functions' old indices to their new indices.
    fn exports(&self, owners: &Owners, indices: &BTreeMap<u32, u32>) -> Result<ExportSection, RewriteError> {
        let mut exports = Exports::of(&self.sections)?;
        for function in self.called_later(owners, BASE) {
            exports.add(&format!("{FUNCTION_PREFIX}{function}"), ExportKind::Func, function)?;
        }
        let globals = self.sections.counts()?.globals;
        for global in 0..globals {
            exports.global_name(global)?;
        }
        exports.add(LOADER_EXPORT, ExportKind::Global, globals)?;
        exports.add(TABLE_EXPORT, ExportKind::Table, 0)?;
        for (tag, _) in (0u32..).zip(&self.tags) {
            exports.add(&format!("{TAG_PREFIX}{tag}"), ExportKind::Tag, tag)?;
        }
        Ok(exports.section_with(|function| indices.get(&function).copied().unwrap_or_default()))
    }

    /// Returns the index of the start function, if the module has one.
    fn started(&self) -> Option<u32> {
        self.sections.0.iter().find_map(|section| match section.payload {
            Payload::StartSection { func, .. } => Some(func),
            _ => None,
        })
    }

    fn type_of(&self, function: u32) -> u32 {
        self.types.get(to_usize(function)).copied().unwrap_or_default()
    }

    fn body(&self, function: u32) -> &'a [u8] {
        let body = to_usize(function).checked_sub(self.imported).and_then(|nth| self.bodies.get(nth));
        body.copied().unwrap_or_default()
    }

    /// Returns the functions of `part` that other parts call.
    fn called_later(&self, owners: &Owners, part: usize) -> BTreeSet<u32> {
        let callers = self.calls.iter().zip(owners).filter(|(_, caller)| **caller != part);
        let called = callers.flat_map(|(calls, _)| calls);
        called.copied().filter(|callee| owners.get(to_usize(*callee)) == Some(&part)).collect()
    }

    /// Returns the module of a part other than the base.
    fn part(&self, owners: &Owners, part: usize) -> Result<Vec<u8>, RewriteError> {
        let own: Vec<u32> = (0u32..).zip(owners).filter(|(_, owner)| **owner == part).map(|(index, _)| index).collect();
        let calls = own.iter().filter_map(|index| self.calls.get(to_usize(*index))).flatten();
        let callees: BTreeSet<u32> = calls.copied().collect();
        let foreign = callees.iter().filter(|callee| owners.get(to_usize(**callee)) != Some(&part));
        let foreign: Vec<u32> = foreign.copied().collect();
        let indices: BTreeMap<u32, u32> = foreign.iter().chain(&own).copied().zip(0u32..).collect();

        let mut imports = ImportSection::new();
        for function in &foreign {
            let kind = EntityType::Function(self.type_of(*function));
            imports.import(BASE_IMPORT, &format!("{FUNCTION_PREFIX}{function}"), kind);
        }
        let (from, name) = MEMORY_IMPORT;
        imports.import(from, name, EntityType::Memory(self.memory.into()));
        let table = wasm_encoder::TableType {
            element_type: wasm_encoder::RefType::FUNCREF,
            table64: false,
            minimum: 0,
            maximum: None,
            shared: false,
        };
        imports.import(BASE_IMPORT, TABLE_EXPORT, EntityType::Table(table));
        let mut base_exports = Exports::of(&self.sections)?;
        for (index, global) in (0u32..).zip(self.sections.globals()?) {
            let kind = wasm_encoder::GlobalType {
                val_type: encoded(global.content_type)?,
                mutable: global.mutable,
                shared: global.shared,
            };
            imports.import(BASE_IMPORT, &base_exports.global_name(index)?, EntityType::Global(kind));
        }
        for (tag, kind) in (0u32..).zip(&self.tags) {
            let kind = wasm_encoder::TagType { kind: wasm_encoder::TagKind::Exception, func_type_idx: *kind };
            imports.import(BASE_IMPORT, &format!("{TAG_PREFIX}{tag}"), EntityType::Tag(kind));
        }

        let (mut functions, mut code) = (FunctionSection::new(), CodeSection::new());
        for index in &own {
            functions.function(self.type_of(*index));
            code.raw(&renumbered(self.body(*index), &indices)?);
        }
        let mut exports = ExportSection::new();
        for function in self.called_later(owners, part) {
            let index = indices.get(&function).copied().unwrap_or_default();
            exports.export(&format!("{FUNCTION_PREFIX}{function}"), ExportKind::Func, index);
        }
        let mut module = Module::new();
        let types = self.sections.0.iter().find(|section| section.id == u8::from(SectionId::Type));
        if let Some(types) = types {
            module.section(&RawSection { id: types.id, data: types.data });
        }
        module.section(&imports).section(&functions).section(&exports);
        let own = own.iter().filter_map(|index| Some((*index, *indices.get(index)?))).collect();
        module.section(&elements(&self.slots, &own)).section(&code);
        Ok(module.finish())
    }
}

/// Returns table elements for the slots of these functions, under their new indices.
fn elements(slots: &BTreeMap<u32, u32>, indices: &BTreeMap<u32, u32>) -> ElementSection {
    let mut elements = ElementSection::new();
    let mut run: (u32, Vec<u32>) = (0, Vec::new());
    let mut add = |(first, functions): (u32, Vec<u32>)| {
        if !functions.is_empty() {
            let offset = ConstExpr::i32_const(first.cast_signed());
            elements.active(None, &offset, Elements::Functions(functions.into()));
        }
    };
    for (slot, function) in slots {
        let Some(index) = indices.get(function) else { continue };
        let length = u32::try_from(run.1.len()).unwrap_or(u32::MAX);
        if run.0.checked_add(length) != Some(*slot) {
            add(std::mem::replace(&mut run, (*slot, Vec::new())));
        }
        run.1.push(*index);
    }
    add(run);
    elements
}

/// The functions that the stubs call: one for each combination of type and part.
#[derive(Default)]
struct Forwarders {
    /// The index of the first forwarder.
    first: u32,
    indices: BTreeMap<(u32, usize), u32>,
    /// The type and body of each forwarder.
    functions: Vec<(u32, Function)>,
}

impl Forwarders {
    fn add(&mut self, of: (u32, usize), kind: u32, body: Function) -> u32 {
        let index = self.first.saturating_add(u32::try_from(self.functions.len()).unwrap_or(u32::MAX));
        self.functions.push((kind, body));
        self.indices.insert(of, index);
        index
    }
}

/// Generates a forwarder. Its parameters are the stub's parameters, followed by the slot. The forwarder loads the part,
/// and then calls the function that the part has stored in the slot.
fn forwarder_body(part: usize, parameters: usize, kind: u32, (loader, loader_type): (u32, u32)) -> Function {
    let parameters = u32::try_from(parameters).unwrap_or(u32::MAX);
    let fuel = parameters.saturating_mul(2).saturating_add(STUB_FUEL);
    let mut forwarder = Function::new([]);
    let mut body = forwarder.instructions();
    body.i32_const(i32::try_from(part).unwrap_or(i32::MAX)).i32_const(fuel.cast_signed());
    body.i32_const(loader.cast_signed()).call_indirect(0, loader_type);
    for parameter in 0..=parameters {
        body.local_get(parameter);
    }
    body.call_indirect(0, kind).end();
    forwarder
}

/// A module's types, and types added after them.
struct NewTypes {
    /// The parameters and results of each type, or `None` for types that are not function types.
    functions: Vec<Option<FunctionType>>,
    added: u32,
    encoded: Vec<u8>,
}

impl NewTypes {
    fn of(sections: &Sections<'_>) -> Result<Self, RewriteError> {
        Ok(Self { functions: function_types(sections)?, added: 0, encoded: Vec::new() })
    }

    /// Returns the parameters and results of a type.
    fn function(&self, kind: u32) -> Result<FunctionType, RewriteError> {
        let found = self.functions.get(to_usize(kind)).and_then(Clone::clone);
        found.ok_or_else(|| unsupported(format!("its type {kind} is not a function type")))
    }

    /// Adds a function type and returns the index of the new type.
    fn add(&mut self, parameters: &[ParsedType], results: &[ParsedType]) -> Result<u32, RewriteError> {
        let index = u32::try_from(self.functions.len())
            .map_err(|_| unsupported("it already has the maximum number of types"))?;
        self.encoded.push(0x60);
        for list in [parameters, results] {
            list.iter().map(|of| encoded(*of)).collect::<Result<Vec<_>, _>>()?.as_slice().encode(&mut self.encoded);
        }
        self.functions.push(Some((parameters.to_vec(), results.to_vec())));
        self.added += 1;
        Ok(index)
    }
}

fn encoded(kind: ParsedType) -> Result<wasm_encoder::ValType, RewriteError> {
    wasm_encoder::ValType::try_from(kind).map_err(|_| unsupported(format!("it uses values of type {kind}")))
}

/// Returns the indices of the functions that a body calls directly.
fn direct_calls(body: &[u8]) -> Result<Vec<u32>, RewriteError> {
    let mut calls = BTreeSet::new();
    let mut operators = FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader()?;
    while !operators.eof() {
        calls.extend(function_of(&operators.read()?).map(|(_, function)| function));
    }
    Ok(calls.into_iter().collect())
}

/// Returns the opcode and the function index of an instruction that refers to a function.
fn function_of(operator: &Operator<'_>) -> Option<(u8, u32)> {
    Some(match operator {
        Operator::Call { function_index } => (0x10, *function_index),
        Operator::ReturnCall { function_index } => (0x12, *function_index),
        Operator::RefFunc { function_index } => (0xd2, *function_index),
        _ => return None,
    })
}

/// Returns a body with replaced function indices.
fn renumbered(body: &[u8], indices: &BTreeMap<u32, u32>) -> Result<Vec<u8>, RewriteError> {
    let (mut made, mut copied) = (Vec::with_capacity(body.len()), 0);
    let mut operators = FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader()?;
    while !operators.eof() {
        let start = operators.original_position();
        let Some((opcode, function)) = function_of(&operators.read()?) else { continue };
        let index = indices.get(&function).ok_or_else(|| unsupported(format!("it has no function {function}")))?;
        made.extend_from_slice(body.get(copied..start).unwrap_or_default());
        made.push(opcode);
        index.encode(&mut made);
        copied = operators.original_position();
    }
    made.extend_from_slice(body.get(copied..).unwrap_or_default());
    Ok(made)
}

/// Returns the index of the function in each slot of table 0.
fn slots(sections: &Sections<'_>) -> Result<BTreeMap<u32, u32>, RewriteError> {
    let mut slots = BTreeMap::new();
    for section in &sections.0 {
        let Payload::ElementSection(segments) = &section.payload else { continue };
        for segment in segments.clone() {
            let segment = segment?;
            let (ElementKind::Active { table_index: None | Some(0), offset_expr }, ElementItems::Functions(functions)) =
                (segment.kind, segment.items)
            else {
                return Err(unsupported("an element segment is not an active list of functions in table 0"));
            };
            let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else {
                return Err(unsupported("an element segment's offset is not an `i32.const`"));
            };
            for (slot, function) in (value.cast_unsigned()..).zip(functions) {
                slots.insert(slot, function?);
            }
        }
    }
    Ok(slots)
}

fn to_usize(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn unsupported(what: impl Into<String>) -> RewriteError {
    RewriteError::Unsupported(what.into())
}
