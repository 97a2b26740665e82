//! Adds callback functions for an interpreter. New entries are appended to a module's sections and to table 0, so that
//! all existing indices stay valid.

use std::collections::BTreeMap;

use wasm_encoder::{
    BlockType, ConstExpr, ElementSection, Elements, Encode, ExportKind, Function, GlobalSection, GlobalType, MemArg,
    SectionId, ValType,
};
use wasmparser::{Payload, RefType, Table, TableInit};

use super::{
    RewriteError,
    sections::{Changed, Exports, Raw, Sections, bound, entries, longer},
};
use crate::Callback;

/// The encoded type `(i32, i32) -> i32`.
const TWO_WORDS_TO_ONE: &[u8] = &[0x60, 2, 0x7f, 0x7f, 1, 0x7f];
/// The encoded type `(i32, i64, i32) -> i64`.
const MAGIC_GETTER: &[u8] = &[0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7e];

/// Maximum initial size of a table that engines and validators accept.
const MAX_SLOTS: u64 = 10_000_000;

/// Adds the callback functions, a table slot for each, and an exported global that contains the slot.
pub(super) fn add(
    sections: &Sections<'_>,
    callbacks: &BTreeMap<String, Callback>,
    exports: &mut Exports,
) -> Result<Vec<Changed>, RewriteError> {
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
        Changed::to(longer(sections, SectionId::Type, count, &types)?),
        Changed::to(longer(sections, SectionId::Function, count, &declarations)?),
        Changed::to(tables),
        Changed::to(longer(sections, SectionId::Global, count, entries(&globals)?.as_slice())?),
        Changed::to(longer(sections, SectionId::Element, 1, entries(&elements)?.as_slice())?),
        Changed::to(longer(sections, SectionId::Code, count, &bodies)?),
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
            // A small integer's `JSValue` is the integer itself.
            body.local_get(0).local_get(1).call(state).i64_extend_i32_u().end().end();
        }
        Callback::ReadAtom => {
            body.local_get(0).local_get(1).i32_wrap_i64().call(callee("JS_AtomToString")?).end();
        }
    }
    Ok(function)
}

fn too_many() -> RewriteError {
    RewriteError::Unsupported("it has no room for a callback".to_owned())
}

/// Returns the table section with `more` additional slots in table 0, and the first new slot.
pub(super) fn longer_table(sections: &Sections<'_>, more: u32) -> Result<(Raw, u32), RewriteError> {
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
    // Offset of the second table, if the module has one.
    let end = items.next().transpose()?.map(|(start, _)| start.saturating_sub(base));
    if ty.element_type != RefType::FUNCREF || ty.table64 || ty.shared || !matches!(init, TableInit::RefNull) {
        return unsupported("its table 0 is not a plain table of functions");
    }
    let minimum = ty.initial.saturating_add(u64::from(more));
    let slot = u32::try_from(ty.initial).ok().filter(|_| minimum <= MAX_SLOTS).ok_or_else(too_many)?;
    // Preserve the room to grow, if possible.
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
    Ok((Raw { id: SectionId::Table.into(), data: content }, slot))
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
