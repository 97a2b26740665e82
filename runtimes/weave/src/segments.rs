//! Contents of a module's data and element segments.

use wasmparser::{ConstExpr, DataKind, ElementItems, ElementKind, Operator};

use crate::{
    WeaveError,
    module::{Module, count, index},
};

/// Function indices in a table, by slot.
pub(crate) type Slots = Vec<Option<u32>>;

/// Returns the functions that the element segments put into a table.
pub(crate) fn slots(module: &Module<'_>, table: u32) -> Result<Slots, WeaveError> {
    let size = module.tables.get(index(table)).map_or(0, |table| table.ty.initial);
    let mut slots = vec![None; usize::try_from(size).unwrap_or(0)];
    for element in &module.elements {
        let ElementKind::Active { table_index, offset_expr } = &element.kind else { continue };
        if table_index.unwrap_or(0) != table {
            continue;
        }
        let Some(start) = constant(offset_expr) else {
            return Err(WeaveError::unsupported(module.name, "an element segment has no constant offset"));
        };
        for (at, function) in (index(start)..).zip(functions(module, &element.items)?) {
            if let Some(slot) = slots.get_mut(at) {
                *slot = function;
            }
        }
    }
    Ok(slots)
}

fn functions(module: &Module<'_>, items: &ElementItems<'_>) -> Result<Vec<Option<u32>>, WeaveError> {
    let listed: Result<Vec<_>, wasmparser::Error> = match items {
        ElementItems::Functions(items) => items.clone().into_iter().map(|function| function.map(Some)).collect(),
        ElementItems::Expressions(_, items) => {
            items.clone().into_iter().map(|expression| reference(&expression?)).collect()
        }
    };
    listed.map_err(WeaveError::invalid(module.name))
}

fn reference(expression: &ConstExpr<'_>) -> Result<Option<u32>, wasmparser::Error> {
    Ok(match expression.get_operators_reader().read()? {
        Operator::RefFunc { function_index } => Some(function_index),
        _ => None,
    })
}

/// Returns the value of an expression that consists of one `i32.const`.
pub(crate) fn constant(expression: &ConstExpr<'_>) -> Option<u32> {
    let mut reader = expression.get_operators_reader();
    match (reader.read(), reader.read()) {
        (Ok(Operator::I32Const { value }), Ok(Operator::End)) => Some(value.cast_unsigned()),
        _ => None,
    }
}

/// Returns the address and contents of an active data segment. The module has only one memory.
pub(crate) fn segment<'a>(module: &Module<'_>, data: &wasmparser::Data<'a>) -> Result<(u32, &'a [u8]), WeaveError> {
    let place = match &data.kind {
        DataKind::Active { offset_expr, .. } => constant(offset_expr),
        DataKind::Passive => None,
    };
    let start = place.filter(|start| start.checked_add(count(data.data)).is_some());
    start.map(|start| (start, data.data)).ok_or_else(|| {
        WeaveError::unsupported(
            module.name,
            "a data segment has no constant offset; only prepared modules can be woven",
        )
    })
}
