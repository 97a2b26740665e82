//! Fuel costs of operators in Wasmtime 48: `fuel_*` in its `func_environ.rs`, `default_operator_cost` in `tunables.rs`.

use wasmparser::Operator;

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
