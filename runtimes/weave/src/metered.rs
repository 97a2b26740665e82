//! Meters a single module, and defines the fuel costs of operators.
//!
//! The costs are the same as in Wasmtime 48 (`fuel_*` in its `func_environ.rs`, `default_operator_cost` in
//! `tunables.rs`).

use wasm_encoder::{ConstExpr, EntityType, ExportKind, GlobalType, ValType, reencode::Reencode};
use wasmparser::{Operator, TypeRef};

use crate::{
    WeaveError,
    body::{self, Fuel, FunctionFrame, Instrumentation, RewrittenFunction},
    glue::Assembly,
    guest::{Module, count, index},
    plan::Shift,
};

/// The export name of the counter, a mutable `i64` global with the remaining fuel minus one. The counter is negative
/// when fuel is exhausted.
pub const FUEL_EXPORT: &str = "__glovebox_fuel";

/// The export name of [`REFUEL_IMPORT`].
pub const REFUEL_EXPORT: &str = "__glovebox_refuel";

/// The module name and field name of the function that is called when the counter is negative: `(counter: i64) -> i64`.
/// The function returns the refilled counter, or traps.
pub const REFUEL_IMPORT: (&str, &str) = ("glovebox", "refuel");

/// The origin of a metered module's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter<'a> {
    /// The module defines the counter, which is initially exhausted, and imports [`REFUEL_IMPORT`]. The module exports
    /// both items.
    Own,
    /// The module is a part of other code. It imports the counter and the refuel function, under their export names,
    /// from the module with this name.
    ImportedFrom(&'a str),
}

/// Adds fuel metering to one module. The module consumes exactly as much fuel as with Wasmtime's metering.
///
/// The host refills the counter in slices that are small enough for timely checks of the time limit, and traps when no
/// fuel is left. After any other trap, the counter may be out of date.
///
/// A custom section hints that the branches of the checks are not taken. Compilers that read it move the calls to the
/// host out of the way of other code.
///
/// # Errors
/// Fails if the module is invalid, or uses a WebAssembly feature that weaving does not support.
pub fn metered(bytes: &[u8], counter: Counter<'_>) -> Result<Vec<u8>, WeaveError> {
    let module = Module::read("the module", bytes)?;
    let mut assembly = Assembly::default();
    let imported_globals = module.imports.iter().filter(|import| matches!(import.ty, TypeRef::Global(_))).count();
    let imported_globals = u32::try_from(imported_globals).unwrap_or(u32::MAX);
    let is_own = counter == Counter::Own;
    let mut shift = Shift {
        imported_functions: (0..module.imported_functions).collect(),
        own_functions: module.imported_functions.saturating_add(1),
        ..Shift::default()
    };
    // Reject a part with its own globals, because their indices would have to follow the counter's index.
    if !is_own && !module.globals.is_empty() {
        return Err(WeaveError::unsupported(module.name, "a part of split code must not define globals"));
    }
    assembly.add(&module, &mut shift)?;
    for import in &module.imports {
        assembly.import(import.module, import.name, import.ty, &mut shift)?;
    }
    let refuel_type = EntityType::Function(assembly.signature(&[ValType::I64], &[ValType::I64]));
    let global = imported_globals.saturating_add(count(&module.globals));
    match counter {
        Counter::Own => {
            assembly.imports.import(REFUEL_IMPORT.0, REFUEL_IMPORT.1, refuel_type);
            assembly.global(ValType::I64, &ConstExpr::i64_const(-1));
        }
        Counter::ImportedFrom(from) => {
            let of = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
            assembly.imports.import(from, REFUEL_EXPORT, refuel_type);
            assembly.imports.import(from, FUEL_EXPORT, EntityType::Global(of));
        }
    }

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
    let refuel = module.imported_functions;
    if is_own {
        assembly.export(FUEL_EXPORT, ExportKind::Global, global);
        assembly.export(REFUEL_EXPORT, ExportKind::Func, refuel);
    }
    assembly.start = module.start.map(|start| shift.function(start));

    let work = Instrumentation { fuel: Some(Fuel { global, halt: refuel }), ..Instrumentation::default() };
    for (function, body) in module.own_functions() {
        let Some(of) = module.function_type(function) else { continue };
        let results = assembly.block_of(module.name, of, &mut shift)?;
        let frame = FunctionFrame { parameters: count(of.params()), results, stack_bytes: None };
        let RewrittenFunction { code, checks } = body::rewrite(&module, body, frame, &work, &mut shift)?;
        let signature = module.functions.get(index(function)).copied().unwrap_or_default();
        assembly.define(signature, &code);
        assembly.hint_not_taken(shift.function(function), &checks);
    }
    Ok(assembly.finish())
}

/// The cost of entering a function, charged before the check at the function's beginning.
pub(crate) const ENTRY: i64 = 1;

/// The largest constant length of a bulk operation that needs no prior check: `SMALL_BULK_OP_COST` in Wasmtime's
/// `func_environ.rs`.
pub(crate) const SMALL_BULK: i64 = 128;

/// Returns `true` for operators whose run time and cost are proportional to the number on top of the stack.
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
