//! The functions that the shim imports from `glovebox:machine` to operate on guests: memory, globals, and calls into
//! guests.
//!
//! The first parameter of most functions is the guest's number. An invalid guest or global number is a bug in the shim,
//! and causes a trap. Only calls into guests catch the unwinding exception.

use std::collections::BTreeSet;

use glovebox_runtimes::rewrite::GlobalKind;
use wasm_encoder::{BlockType, Catch, Function, InstructionSink, MemArg, ValType};
use wasmparser::FuncType;

use crate::{
    guest::{count, index},
    plan::{PlacedGuest, Plan, Reason},
};

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

pub(crate) type Signature = (&'static [ValType], &'static [ValType]);

/// Returns the type and body of the function with this name, or `None` if the name is unknown.
pub(crate) fn function(name: &str, plan: &Plan<'_>) -> Option<(Signature, Function)> {
    Some(match name {
        "describe_len" => ((&[], &[I32]), describe_len(plan)),
        "describe" => ((&[I32], &[]), describe(plan)),
        "memory_size" => ((&[I32], &[I32]), each(plan, |code, guest| _ = code.memory_size(guest.memory()))),
        "memory_grow" => {
            ((&[I32, I32], &[I32]), each(plan, |code, guest| _ = code.local_get(1).memory_grow(guest.memory())))
        }
        "virtual_size" => ((&[I32], &[I32]), each(plan, |code, guest| _ = code.global_get(guest.virtual_size))),
        "set_virtual_size" => {
            ((&[I32, I32], &[]), each(plan, |code, guest| _ = code.local_get(1).global_set(guest.virtual_size)))
        }
        "memory_read" => {
            let body = each(plan, |code, guest| {
                code.local_get(2).local_get(1).local_get(3).memory_copy(plan.shim_memory, guest.memory());
            });
            ((&[I32, I32, I32, I32], &[]), body)
        }
        "memory_write" => {
            let body = each(plan, |code, guest| {
                code.local_get(1).local_get(2).local_get(3).memory_copy(guest.memory(), plan.shim_memory);
            });
            ((&[I32, I32, I32, I32], &[]), body)
        }
        "memory_fill" => {
            let body = each(plan, |code, guest| {
                code.local_get(1).local_get(2).local_get(3).memory_fill(guest.memory());
            });
            ((&[I32, I32, I32, I32], &[]), body)
        }
        "memory_equals" => {
            let body = each(plan, |code, guest| equals(code, guest.memory(), 1, Some((plan.shim_memory, 2)), 3));
            ((&[I32, I32, I32, I32], &[I32]), body)
        }
        "memory_is_zero" => {
            let body = each(plan, |code, guest| equals(code, guest.memory(), 1, None, 2));
            ((&[I32, I32, I32], &[I32]), body)
        }
        "image_to_guest" => {
            let body = each(plan, |code, guest| image(code, guest, guest.memory()));
            ((&[I32, I32, I32, I32], &[]), body)
        }
        "image_to_shim" => {
            ((&[I32, I32, I32, I32], &[]), each(plan, |code, guest| image(code, guest, plan.shim_memory)))
        }
        "library_to_shim" => {
            ((&[I32, I32, I32, I32], &[]), each(plan, |code, guest| library(code, guest, plan.shim_memory)))
        }
        "global_get" => ((&[I32, I32], &[I64]), each(plan, global_get)),
        "global_set" => ((&[I32, I32, I64], &[]), each(plan, global_set)),
        "fuel_get" => ((&[], &[I64]), build_function(|code| _ = code.global_get(plan.fuel).i64_const(1).i64_add())),
        "fuel_set" => {
            ((&[I64], &[]), build_function(|code| _ = code.local_get(0).i64_const(1).i64_sub().global_set(plan.fuel)))
        }
        "unwound" => ((&[], &[I32]), build_function(|code| _ = code.global_get(plan.reason))),
        "call_export" => ((&[I32, I32, I32, I32, I32], &[I32]), exports(plan)),
        "call_table" => ((&[I32, I32, I32, I32, I32], &[I32]), tables(plan)),
        _ => return None,
    })
}

/// Generates a function that does not depend on a guest.
fn build_function(write: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    write(&mut code);
    code.end();
    function
}

/// Generates a function that operates on the guest whose number is the first parameter.
fn each(plan: &Plan<'_>, write: impl Fn(&mut InstructionSink<'_>, &PlacedGuest<'_>)) -> Function {
    build_function(|code| {
        for_guest(code, plan, |code, guest| {
            write(code, guest);
            code.return_();
        });
        code.unreachable();
    })
}

fn describe_len(plan: &Plan<'_>) -> Function {
    build_function(|code| _ = code.i32_const(plan.description.1.cast_signed()))
}

fn describe(plan: &Plan<'_>) -> Function {
    let (segment, len) = plan.description;
    build_function(|code| {
        _ = code.local_get(0).i32_const(0).i32_const(len.cast_signed()).memory_init(plan.shim_memory, segment)
    })
}

/// Copies bytes from the image's data segment. Parameters: guest, offset in the segment, destination and length.
fn image(code: &mut InstructionSink<'_>, guest: &PlacedGuest<'_>, memory: u32) {
    code.local_get(2).local_get(1).local_get(3).memory_init(memory, guest.image);
}

/// Like `image`, but copies from the library's data segment. Traps if the guest has no library.
fn library(code: &mut InstructionSink<'_>, guest: &PlacedGuest<'_>, memory: u32) {
    match guest.library {
        Some(segment) => _ = code.local_get(2).local_get(1).local_get(3).memory_init(memory, segment),
        None => _ = code.unreachable(),
    }
}

fn global_get(code: &mut InstructionSink<'_>, guest: &PlacedGuest<'_>) {
    switch(code, 1, count(&guest.read.globals), |code, number| {
        let Some((index, kind)) = global(guest, number) else { return };
        code.global_get(index);
        match kind {
            GlobalKind::I32 => _ = code.i64_extend_i32_u(),
            GlobalKind::I64 => {}
            GlobalKind::F32 => _ = code.i32_reinterpret_f32().i64_extend_i32_u(),
            GlobalKind::F64 => _ = code.i64_reinterpret_f64(),
        }
        code.return_();
    });
    code.unreachable();
}

fn global_set(code: &mut InstructionSink<'_>, guest: &PlacedGuest<'_>) {
    switch(code, 1, count(&guest.read.globals), |code, number| {
        let Some((index, kind)) = global(guest, number) else { return };
        code.local_get(2);
        match kind {
            GlobalKind::I32 => _ = code.i32_wrap_i64(),
            GlobalKind::I64 => {}
            GlobalKind::F32 => _ = code.i32_wrap_i64().f32_reinterpret_i32(),
            GlobalKind::F64 => _ = code.f64_reinterpret_i64(),
        }
        code.global_set(index).return_();
    });
    code.unreachable();
}

/// Looks up a mutable global by number. Returns its index and type.
fn global(guest: &PlacedGuest<'_>, number: u32) -> Option<(u32, GlobalKind)> {
    let (global, _) = guest.read.globals.get(index(number))?;
    Some((global.index.saturating_add(guest.shift.globals), global.kind))
}

/// Writes code for the guest whose number is in the first local. If no guest has this number, execution continues
/// after the written code.
pub(crate) fn for_guest(
    code: &mut InstructionSink<'_>,
    plan: &Plan<'_>,
    write: impl Fn(&mut InstructionSink<'_>, &PlacedGuest<'_>),
) {
    for (number, guest) in (0i32..).zip(&plan.guests) {
        code.local_get(0).i32_const(number).i32_eq().if_(BlockType::Empty);
        write(code, guest);
        code.end();
    }
}

/// Branches to the case whose number is in a local. Each case must leave the function. The code after the switch
/// handles all other numbers.
pub(crate) fn switch(
    code: &mut InstructionSink<'_>,
    selector: u32,
    cases: u32,
    write: impl FnMut(&mut InstructionSink<'_>, u32),
) {
    let targets: Vec<u32> = (0..cases).collect();
    switch_by(code, selector, &targets, cases, write);
}

/// Like [`switch`], but `targets` maps each number to its case.
pub(crate) fn switch_by(
    code: &mut InstructionSink<'_>,
    selector: u32,
    targets: &[u32],
    cases: u32,
    mut write: impl FnMut(&mut InstructionSink<'_>, u32),
) {
    for _ in 0..=cases {
        code.block(BlockType::Empty);
    }
    code.local_get(selector).br_table(targets.iter().copied(), cases).end();
    for case in 0..cases {
        write(code, case);
        code.end();
    }
}

/// Returns the argument of an access to a memory, without an alignment hint.
pub(crate) fn access(memory: u32, offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: memory }
}

/// Number of bytes that one iteration of each loop compares. A loop ends before an iteration that would read beyond the
/// range, and the next loop compares the remaining bytes. Many ranges are shorter than two iterations of the first
/// loop.
const STRIDES: [i32; 2] = [64, 8];

/// Writes code that compares the guest's `memory` at `at` with the memory and address in `with`, or with zeros. If all
/// `len` bytes are equal, the code returns 1 from the function. Otherwise, the code leaves 0 on the stack.
///
/// `at`, `len` and the address in `with` are locals, which the code changes. The code reads no byte beyond the ranges.
/// An address outside its memory causes a trap.
pub(crate) fn equals(code: &mut InstructionSink<'_>, memory: u32, at: u32, with: Option<(u32, u32)>, len: u32) {
    code.block(BlockType::Empty);

    for stride in STRIDES {
        code.loop_(BlockType::Empty);
        code.local_get(len).i32_const(stride).i32_ge_u().if_(BlockType::Empty);
        for word in 0..stride.unsigned_abs() / 8 {
            let offset = u64::from(word) * 8;
            code.local_get(at).i64_load(access(memory, offset));
            if let Some((memory, with)) = with {
                code.local_get(with).i64_load(access(memory, offset)).i64_xor();
            }
            if word > 0 {
                code.i64_or();
            }
        }
        code.i64_const(0).i64_ne().br_if(2);
        step(code, at, with, len, stride);
        code.br(1).end().end();
    }

    code.loop_(BlockType::Empty);
    code.local_get(len).if_(BlockType::Empty);
    code.local_get(at).i32_load8_u(access(memory, 0));
    if let Some((memory, with)) = with {
        code.local_get(with).i32_load8_u(access(memory, 0)).i32_xor();
    }
    code.br_if(2);
    step(code, at, with, len, 1);
    code.br(1).end().end();

    code.i32_const(1).return_().end();
    code.i32_const(0);
}

fn step(code: &mut InstructionSink<'_>, at: u32, with: Option<(u32, u32)>, len: u32, bytes: i32) {
    for local in [Some(at), with.map(|(_, with)| with)].into_iter().flatten() {
        code.local_get(local).i32_const(bytes).i32_add().local_set(local);
    }
    code.local_get(len).i32_const(bytes).i32_sub().local_set(len);
}

// The parameters of `call_export` and `call_table`: the guest, the callee, the address of the arguments (an `i64`
// each), the number of arguments, and the address of the result (an `i64`).
const CALLEE: u32 = 1;
const ARGUMENTS: u32 = 2;
const COUNT: u32 = 3;
const RESULT: u32 = 4;

/// The local for the callee's result, in both functions.
const RETURNED: u32 = 5;
/// The local for the value of the depth counter before the call, in both functions.
const DEPTH: u32 = 6;

#[derive(Clone, Copy)]
enum Status {
    Nothing = 0,
    I32 = 1,
    I64 = 2,
    Unwound = 3,
    Missing = 4,
}

/// Generates `call_export`, which calls a function by its number in the description.
pub(crate) fn exports(plan: &Plan<'_>) -> Function {
    catching_function(plan, |code, guest| {
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

/// Generates `call_table`, which calls the function in a slot of the guest's table. The contents of all slots are
/// known, so each function is called with its own type.
pub(crate) fn tables(plan: &Plan<'_>) -> Function {
    catching_function(plan, |code, guest| {
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

/// Generates a function that calls into a guest and catches the unwinding exception. `write` must write a return after
/// each call, so that the code after it is unreachable.
fn catching_function(plan: &Plan<'_>, write: impl Fn(&mut InstructionSink<'_>, &PlacedGuest<'_>)) -> Function {
    let mut function = Function::new([(2, ValType::I64)]);
    let mut code = function.instructions();
    code.global_get(plan.depth).local_set(DEPTH);
    code.block(BlockType::Empty).block(BlockType::Empty);
    let ours = Catch::One { tag: plan.tag, label: 1 };
    // As in the engine, an uncaught exception of the guest ends only the guest, not the whole instance.
    let catches = if plan.has_tags() { vec![ours, Catch::All { label: 0 }] } else { vec![ours] };
    code.try_table(BlockType::Empty, catches);
    for_guest(&mut code, plan, write);
    code.i32_const(Status::Missing as i32).return_();
    code.end().unreachable().end();
    code.i32_const(Reason::Thrown as i32).global_set(plan.reason).end();
    // Restore the depth counter, because unwound calls did not release their stack.
    code.local_get(DEPTH).global_set(plan.depth);
    code.i32_const(Status::Unwound as i32).end();
    function
}

/// Writes code that loads the arguments, calls the function, stores its result and returns.
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
