//! Calls into guests: the only place that catches the unwinding exception.

use std::collections::BTreeSet;

use wasm_encoder::{BlockType, Catch, Function, InstructionSink, ValType};
use wasmparser::FuncType;

use crate::{
    module::{count, index},
    plan::{Placed, Plan, Reason},
    switch::{access, for_guest, switch, switch_by},
};

/// Parameters of both functions: the guest, the callee, the address of the arguments (an `i64` each), their number, and
/// the address of the result, an `i64` too.
const CALLEE: u32 = 1;
const ARGUMENTS: u32 = 2;
const COUNT: u32 = 3;
const RESULT: u32 = 4;

/// Locals of both functions: a result, and the stack that remained before the call.
const RETURNED: u32 = 5;
const DEPTH: u32 = 6;

#[derive(Clone, Copy)]
enum Status {
    Nothing = 0,
    I32 = 1,
    I64 = 2,
    Unwound = 3,
    Missing = 4,
}

/// `call_export`: calls a function by its number in the description.
pub(crate) fn exports(plan: &Plan<'_>) -> Function {
    caught(plan, |code, guest| {
        switch(code, CALLEE, count(&guest.read.exports), |code, number| {
            let function = guest.read.exports.get(index(number));
            let Some((function, of)) = function.and_then(|at| Some((*at, guest.read.module.function_type(*at)?)))
            else {
                return;
            };
            call(code, plan, of, |code| _ = code.call(guest.shift.function(function)));
        });
    })
}

/// `call_table`: calls the function in a slot of the guest's table. The contents of slots are known, so each function
/// is called with its own type.
pub(crate) fn tables(plan: &Plan<'_>) -> Function {
    caught(plan, |code, guest| {
        let Some((table, slots)) = &guest.read.table else { return };
        let module = &guest.read.module;
        let type_of = |slot: &Option<u32>| module.functions.get(index((*slot)?)).copied();
        let types: BTreeSet<u32> = slots.iter().filter_map(type_of).collect();
        let types: Vec<u32> = types.into_iter().collect();
        let none = count(&types);
        let case = |slot: &Option<u32>| {
            let at = type_of(slot).and_then(|of| types.binary_search(&of).ok());
            at.and_then(|at| u32::try_from(at).ok()).unwrap_or(none)
        };
        let targets: Vec<u32> = slots.iter().map(case).collect();
        switch_by(code, CALLEE, &targets, none, |code, case| {
            let Some(at) = types.get(index(case)) else { return };
            let Some(of) = module.types.get(index(*at)) else { return };
            let (at, table) = (at.saturating_add(guest.shift.types), table.saturating_add(guest.shift.tables));
            call(code, plan, of, |code| _ = code.local_get(CALLEE).call_indirect(table, at));
        });
    })
}

/// Generates a function that calls into a guest and catches what unwinds it. `write` must return after each call that
/// it writes: code behind its calls never runs.
fn caught(plan: &Plan<'_>, write: impl Fn(&mut InstructionSink<'_>, &Placed<'_>)) -> Function {
    let mut function = Function::new([(2, ValType::I64)]);
    let mut code = function.instructions();
    code.global_get(plan.depth).local_set(DEPTH);
    code.block(BlockType::Empty).block(BlockType::Empty);
    let ours = Catch::One { tag: plan.tag, label: 1 };
    // An exception that the guest itself throws ends the guest, as in the engine, and not the whole instance.
    let catches = if plan.throws() { vec![ours, Catch::All { label: 0 }] } else { vec![ours] };
    code.try_table(BlockType::Empty, catches);
    for_guest(&mut code, plan, write);
    code.i32_const(Status::Missing as i32).return_();
    code.end().unreachable().end();
    code.i32_const(Reason::Thrown as i32).global_set(plan.reason).end();
    // Unwound calls did not give back their stack.
    code.local_get(DEPTH).global_set(plan.depth);
    code.i32_const(Status::Unwound as i32).end();
    function
}

/// Loads the arguments, calls, stores the result and returns.
fn call(code: &mut InstructionSink<'_>, plan: &Plan<'_>, of: &FuncType, write: impl FnOnce(&mut InstructionSink<'_>)) {
    let parameters = of.params();
    code.local_get(COUNT).i32_const(count(parameters).cast_signed()).i32_ne().if_(BlockType::Empty);
    code.i32_const(Status::Missing as i32).return_().end();
    for (at, parameter) in (0u64..).zip(parameters) {
        code.local_get(ARGUMENTS).i64_load(access(plan.shim_memory, at * 8));
        if *parameter == wasmparser::ValType::I32 {
            code.i32_wrap_i64();
        }
    }
    write(code);
    let status = match of.results() {
        [] => Status::Nothing,
        [wasmparser::ValType::I32, ..] => {
            code.i64_extend_i32_u();
            Status::I32
        }
        _ => Status::I64,
    };
    if !of.results().is_empty() {
        code.local_set(RETURNED).local_get(RESULT).local_get(RETURNED).i64_store(access(plan.shim_memory, 0));
    }
    code.i32_const(status as i32).return_();
}
