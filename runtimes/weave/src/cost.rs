//! What Wasmtime 48 charges for an operator: `fuel_*` in its `func_environ.rs`, `default_operator_cost` in `tunables.rs`.

use wasmparser::Operator;

/// A call costs its function this, before anything in it is looked at.
pub(crate) const ENTRY: i64 = 1;

/// Work in proportion to a length up to this is not checked before it begins, where the length is a constant:
/// `SMALL_BULK_OP_COST` in Wasmtime's `func_environ.rs`.
pub(crate) const SMALL_BULK: i64 = 128;

/// Whether an operator does work in proportion to the number on top of the stack, and costs as much.
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

/// What an operator costs by itself, where it can be reached.
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
