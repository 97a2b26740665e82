//! Metering of a single module, and the fuel costs of operators.
//!
//! The costs are those of Wasmtime 48: `fuel_*` in its `func_environ.rs`, `default_operator_cost` in `tunables.rs`.

use wasm_encoder::{ConstExpr, EntityType, ExportKind, Function, ValType, reencode::Reencode};
use wasmparser::{Operator, TypeRef};

use crate::{
    WeaveError,
    body::{self, Frame, Fuel, Work},
    glue::{self, Assembly},
    guest::{Module, count, index},
    plan::Shift,
};

/// Meters the fuel of one module like that of a woven one, for comparison with Wasmtime's metering.
///
/// The module exports the counter as `fuel`, a mutable `i64` global. It holds the remaining fuel minus one and counts
/// down from the value that the embedder sets. The module imports `glovebox:machine` `refuel: [] -> [i32]`, which is
/// called when the fuel is exhausted. Zero means that the counter was refilled and execution continues; any other
/// result unwinds the call with an exception.
///
/// Everything else stays: `unreachable` traps, and the host limits the depth of calls.
pub fn metered(bytes: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let module = Module::read("the module", bytes)?;
    let mut assembly = Assembly::default();
    let mut shift = Shift {
        imported_functions: (0..module.imported_functions).collect(),
        own_functions: module.imported_functions.saturating_add(1),
        ..Shift::default()
    };
    assembly.add(&module, &mut shift)?;
    for import in &module.imports {
        assembly.import(import.module, import.name, import.ty, &mut shift)?;
    }
    let refuel_type = assembly.signature(&[], &[ValType::I32]);
    assembly.imports.import("glovebox:machine", "refuel", EntityType::Function(refuel_type));

    let encoding = WeaveError::encoding(module.name);
    for memory in &module.memories {
        let again = shift.memory_type(*memory).map_err(&encoding)?;
        assembly.memories.memory(again);
    }
    for segment in &module.data {
        shift.parse_data(&mut assembly.data, segment.clone()).map_err(&encoding)?;
    }
    for export in &module.exports {
        shift.parse_export(&mut assembly.exports, *export).map_err(&encoding)?;
    }
    assembly.start = module.start.map(|start| shift.function(start));

    let tag = assembly.tag();
    let imported = |is: fn(&TypeRef) -> bool| {
        let count = module.imports.iter().filter(|import| is(&import.ty)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let tag = tag.saturating_add(imported(|of| matches!(of, TypeRef::Tag(_))));
    let global = assembly.global(ValType::I64, &ConstExpr::i64_const(0));
    let global = global.saturating_add(imported(|of| matches!(of, TypeRef::Global(_))));
    assembly.export("fuel", ExportKind::Global, global);

    let halt = shift.own_functions.saturating_add(count(&module.bodies));
    let unwind = halt.saturating_add(1);
    let work = Work { fuel: Some(Fuel { global, halt }), tag, ..Work::default() };
    for (function, body) in module.own_functions() {
        let Some(of) = module.function_type(function) else { continue };
        let results = assembly.block_of(module.name, of, &mut shift)?;
        let frame = Frame { parameters: count(of.params()), results, stack_bytes: None };
        let again = body::rewrite(&module, body, frame, &work, &mut shift)?;
        let signature = module.functions.get(index(function)).copied().unwrap_or_default();
        assembly.define(signature, &again);
    }
    let signature = assembly.signature(&[ValType::I64], &[ValType::I64]);
    assembly.define(signature, &glue::halt(global, None, module.imported_functions, unwind));
    let signature = assembly.signature(&[], &[]);
    let mut throw = Function::new([]);
    throw.instructions().throw(tag).end();
    assembly.define(signature, &throw);
    Ok(assembly.finish())
}

/// Cost of entering a function, charged before the check at its beginning.
pub(crate) const ENTRY: i64 = 1;

/// Largest constant length that is not checked before the work begins: `SMALL_BULK_OP_COST` in Wasmtime's
/// `func_environ.rs`.
pub(crate) const SMALL_BULK: i64 = 128;

/// Returns `true` for operators whose work and cost are proportional to the number on top of the stack.
pub(crate) fn is_bulk(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableInit { .. }
            | Operator::TableGrow { .. }
    )
}

/// Returns the fixed cost of a reachable operator.
pub(crate) fn cost(operator: &Operator<'_>) -> i64 {
    match operator {
        Operator::Nop
        | Operator::Drop
        | Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::Unreachable
        | Operator::Return
        | Operator::Else
        | Operator::End => 0,
        _ => 1,
    }
}
