//! Finds the direct functions of a module: the functions that only direct calls reach.
//!
//! A [metered](crate::metered()) module's direct functions receive the fuel counter as an additional last parameter,
//! and return it as an additional last result. The counter then stays in a register. Writing it to the global and
//! reading it back, at each call and each return, takes more time.
//!
//! Other functions keep their types, because tables, hosts and other modules call them. An exported direct function is
//! exported through a function of its original type.

use std::collections::BTreeSet;

use wasm_encoder::Function;
use wasmparser::{FuncType, Operator};

use crate::{WeaveError, guest::Module, plan};

/// Maximum number of parameters, and of results, of a direct function. A WebAssembly function can have 1,000 of each.
const MAX_VALUES: usize = 999;

/// Returns the indices of the direct functions.
///
/// A function is not direct if an element segment, a global's initial value or a `ref.func` refers to it, if it is the
/// start function, or if it makes or receives a tail call.
pub(crate) fn direct_functions(module: &Module<'_>) -> Result<BTreeSet<u32>, WeaveError> {
    let wrong = WeaveError::invalid(module.name);
    let fits = |of: &FuncType| of.params().len() <= MAX_VALUES && of.results().len() <= MAX_VALUES;
    let own = module.own_functions().map(|(function, _)| function);
    let mut direct: BTreeSet<u32> = own.filter(|function| module.function_type(*function).is_some_and(fits)).collect();
    for element in &module.elements {
        for function in plan::functions(module, &element.items)?.into_iter().flatten() {
            direct.remove(&function);
        }
    }
    for global in &module.globals {
        if let Some(function) = plan::reference(&global.init_expr).map_err(&wrong)? {
            direct.remove(&function);
        }
    }
    if let Some(start) = module.start {
        direct.remove(&start);
    }
    for (function, body) in module.own_functions() {
        for operator in body.get_operators_reader().map_err(&wrong)? {
            match operator.map_err(&wrong)? {
                Operator::RefFunc { function_index } => _ = direct.remove(&function_index),
                Operator::ReturnCall { function_index } => {
                    direct.remove(&function_index);
                    direct.remove(&function);
                }
                Operator::ReturnCallIndirect { .. } => _ = direct.remove(&function),
                _ => {}
            }
        }
    }
    Ok(direct)
}

/// Returns a function of the original type that calls a direct function with the counter in the global `counter`.
pub(crate) fn entry(function: u32, parameters: u32, counter: u32) -> Function {
    let mut entry = Function::new([]);
    let mut code = entry.instructions();
    for parameter in 0..parameters {
        code.local_get(parameter);
    }
    code.global_get(counter).call(function).global_set(counter).end();
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_calls_reach_direct_functions() {
        let text = r#"(module
            (type $of (func))
            (table 1 funcref)
            (elem (i32.const 0) $listed)
            (elem declare func $referred)
            (global funcref (ref.func $initial))
            (func $plain)
            (func $exported (export "exported") (call $plain))
            (func $listed)
            (func $referred (drop (ref.func $referred)))
            (func $initial)
            (func $started)
            (start $started)
            (func $jumps (return_call $target))
            (func $target)
            (func $jumps_far (return_call_indirect (type $of) (i32.const 0))))"#;
        let bytes = wat::parse_str(text).unwrap();
        let module = Module::read("a module", &bytes).unwrap();
        assert_eq!(direct_functions(&module).unwrap(), BTreeSet::from([0, 1]));
    }
}
