//! Limits the depth of a guest's calls.
//!
//! Overflowing the native stack causes a trap in some hosts, and terminates the process in others. No host reports the
//! stack usage of a call. Each call to a possibly recursive function therefore subtracts an estimate of its stack usage
//! from a budget, and adds the estimate back when it returns. The estimate is the same in every host. A call that
//! exceeds the budget unwinds the guest. A function that cannot recurse is on the stack at most once, so its usage is
//! subtracted in advance.
//!
//! The estimate assumes a compiler that spills everything. Every local and every operand has a slot of 8 bytes in the
//! frame, and each frame has a fixed overhead. V8's Liftoff spills everything, whereas Cranelift also uses registers.

use wasmparser::Operator;

use crate::{
    WeaveError,
    guest::{Module, count, index},
    plan::slots,
};

/// The overhead of a frame in bytes: the return address, frame pointer, saved registers, and the compiler's own data.
const FRAME_BYTES: u32 = 112;

const SLOT_BYTES: u32 = 8;

/// The stack usage of a module's functions.
pub(crate) struct Depths {
    /// Bytes per call for each of the module's own functions. `None` if the function cannot recurse.
    pub(crate) counted: Vec<Option<i32>>,
    /// The largest total stack usage of the functions that cannot recurse, on any call path, in bytes.
    pub(crate) once_bytes: u32,
}

/// Builds the call graph and estimates the stack usage of each function.
pub(crate) fn depths(module: &Module<'_>, bytes: &[u8]) -> Result<Depths, WeaveError> {
    let graph = Graph::of(module, &module.max_operands(bytes)?)?;
    let components = components(&graph.callees);
    // Tarjan's algorithm returns components in reverse topological order, so callees precede their callers.
    let mut once = vec![0u32; components.len()];
    let mut component_of = vec![0usize; graph.callees.len()];
    for (number, component) in components.iter().enumerate() {
        for function in component {
            if let Some(of) = component_of.get_mut(*function) {
                *of = number;
            }
        }
    }
    let mut counted = vec![None; graph.callees.len()];
    for (number, component) in components.iter().enumerate() {
        let repeats = component.len() > 1 || component.iter().any(|function| graph.has_call(*function, *function));
        let callees = component.iter().filter_map(|function| graph.callees.get(*function)).flatten();
        let below = callees.filter_map(|callee| component_of.get(*callee)).filter(|of| **of != number);
        let mut bytes = below.filter_map(|of| once.get(*of)).copied().max().unwrap_or(0);
        for function in component {
            let frame = graph.frame_bytes.get(*function).copied().unwrap_or(0);
            match counted.get_mut(*function) {
                Some(slot) if repeats => *slot = i32::try_from(frame).ok(),
                _ => bytes = bytes.saturating_add(frame),
            }
        }
        if let Some(slot) = once.get_mut(number) {
            *slot = bytes;
        }
    }
    counted.truncate(module.bodies.len());
    Ok(Depths { counted, once_bytes: once.into_iter().max().unwrap_or(0) })
}

/// The call graph of a module's own functions. The nodes are the functions, followed by one node for each type. An
/// indirect call is an edge to its type. A type has edges to all functions of this type in tables.
struct Graph {
    callees: Vec<Vec<usize>>,
    frame_bytes: Vec<u32>,
}

impl Graph {
    fn of(module: &Module<'_>, operands: &[u32]) -> Result<Self, WeaveError> {
        let wrong = WeaveError::invalid(module.name);
        let (mut callees, mut frame_bytes) = (Vec::new(), Vec::new());
        for ((function, body), operands) in module.own_functions().zip(operands) {
            let mut called = Vec::new();
            for operator in body.get_operators_reader().map_err(&wrong)? {
                let operator = operator.map_err(&wrong)?;
                match operator {
                    Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                        called.extend(own_index(module, function_index));
                    }
                    Operator::CallIndirect { type_index, .. } | Operator::ReturnCallIndirect { type_index, .. } => {
                        called.push(type_node(module, type_index));
                    }
                    _ => {}
                }
            }
            called.sort_unstable();
            called.dedup();
            callees.push(called);
            let parameters = module.function_type(function).map_or(0, |of| count(of.params()));
            let mut slots = operands.saturating_add(parameters);
            for group in body.get_locals_reader().map_err(&wrong)? {
                let (locals, _) = group.map_err(&wrong)?;
                slots = slots.saturating_add(locals);
            }
            frame_bytes.push(slots.saturating_mul(SLOT_BYTES).saturating_add(FRAME_BYTES));
        }
        callees.extend(table_functions(module)?);
        Ok(Self { callees, frame_bytes })
    }

    fn has_call(&self, caller: usize, callee: usize) -> bool {
        self.callees.get(caller).is_some_and(|callees| callees.binary_search(&callee).is_ok())
    }
}

/// Returns a function's index among the module's own functions, or `None` for an import.
fn own_index(module: &Module<'_>, function: u32) -> Option<usize> {
    function.checked_sub(module.imported_functions).map(index)
}

/// Returns the node of a type. Indirect calls compare types by structure, so equal types share one node.
fn type_node(module: &Module<'_>, at: u32) -> usize {
    let of = module.types.get(index(at));
    let first = module.types.iter().position(|other| Some(other) == of).unwrap_or(index(at));
    module.bodies.len().saturating_add(first)
}

/// Returns the functions in tables, grouped by type.
fn table_functions(module: &Module<'_>) -> Result<Vec<Vec<usize>>, WeaveError> {
    let mut table_functions = vec![Vec::new(); module.types.len()];
    for table in 0..count(&module.tables) {
        for function in slots(module, table)?.into_iter().flatten() {
            let of = module.functions.get(index(function)).copied().unwrap_or_default();
            let node = type_node(module, of).saturating_sub(module.bodies.len());
            if let Some(functions) = table_functions.get_mut(node) {
                functions.extend(own_index(module, function));
            }
        }
    }
    Ok(table_functions)
}

/// Returns the strongly connected components of a graph, found by Tarjan's algorithm. Uses an explicit stack instead of
/// recursion, because an untrusted call graph can be arbitrarily deep.
fn components(callees: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut order = vec![UNSEEN; callees.len()];
    let mut lowest = vec![UNSEEN; callees.len()];
    let mut is_open = vec![false; callees.len()];
    let (mut next, mut open, mut found) = (0, Vec::new(), Vec::new());
    for root in 0..callees.len() {
        if order.get(root).is_none_or(|order| *order != UNSEEN) {
            continue;
        }
        // Each entry is a function and the number of its visited callees.
        let mut path = vec![(root, 0usize)];
        while let Some((function, looked_at)) = path.last_mut() {
            let (at, nth) = (*function, *looked_at);
            *looked_at += 1;
            if nth == 0 {
                set(&mut order, at, next);
                set(&mut lowest, at, next);
                set(&mut is_open, at, true);
                open.push(at);
                next += 1;
            }
            match callees.get(at).and_then(|callees| callees.get(nth)) {
                Some(callee) if get(&order, *callee) == UNSEEN => path.push((*callee, 0)),
                Some(callee) => {
                    if is_open.get(*callee) == Some(&true) {
                        let both = get(&lowest, at).min(get(&order, *callee));
                        set(&mut lowest, at, both);
                    }
                }
                None => {
                    path.pop();
                    if let Some((caller, _)) = path.last() {
                        let both = get(&lowest, *caller).min(get(&lowest, at));
                        set(&mut lowest, *caller, both);
                    }
                    if get(&lowest, at) == get(&order, at) {
                        let first = open.iter().rposition(|other| *other == at).unwrap_or(0);
                        let component = open.split_off(first);
                        component.iter().for_each(|member| set(&mut is_open, *member, false));
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}

fn get(items: &[usize], at: usize) -> usize {
    items.get(at).copied().unwrap_or(usize::MAX)
}

fn set<T>(items: &mut [T], at: usize, value: T) {
    if let Some(item) = items.get_mut(at) {
        *item = value;
    }
}

#[cfg(test)]
mod tests {
    use super::{components, depths};
    use crate::guest::Module;

    #[test]
    fn call_graph_components_are_in_call_order() {
        // The edges are 0 → 1 → 2 → 1, 2 → 3 and 4 → 4.
        let found = components(&[vec![1], vec![2], vec![1, 3], vec![], vec![4]]);
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4]]);
    }

    #[test]
    fn long_call_chain_needs_no_recursion() {
        let chain: Vec<Vec<usize>> = (0..200_000).map(|at| vec![(at + 1) % 200_000]).collect();
        assert_eq!(components(&chain).len(), 1);
    }

    #[test]
    fn cycles_are_counted_and_acyclic_calls_summed() {
        let text = r#"(module
            (type $leaf (func (param i32)))
            (import "wasi_snapshot_preview1" "fd_close" (func (param i32) (result i32)))
            (table 1 funcref) (elem (i32.const 0) $tabled)
            (func $entry (call $even (i32.const 1)))
            (func $even (param i32) (call $odd (local.get 0)))
            (func $odd (param i32) (local i64 i64) (call $even (i32.const 0)) (call $below))
            (func $below (call $last))
            (func $last)
            (func $tabled (param i32) (call_indirect (type $leaf) (local.get 0) (i32.const 0)))
            (func $self (call $self)))"#;
        let bytes = wat::parse_str(text).unwrap();
        let depths = depths(&Module::read("guest", &bytes).unwrap(), &bytes).unwrap();
        let (frame, slot) = (112, 8);
        let even = frame + slot * 2;
        let odd = frame + slot * 4;
        let table_functions = frame + slot * 3;
        assert_eq!(depths.counted, [None, Some(even), Some(odd), None, None, Some(table_functions), Some(frame)]);
        assert_eq!(depths.once_bytes, 3 * 112 + 8, "`entry` with one operand, `below` and `last`");
    }
}
