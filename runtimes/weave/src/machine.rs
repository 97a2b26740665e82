//! The functions that the shim imports from `glovebox:machine` to operate on guests.
//!
//! The first parameter of most functions is the guest's number. An invalid guest or global is an error in the shim and
//! traps.

use wasm_encoder::{Function, InstructionSink, ValType};

use crate::{
    calls, compare,
    module::count,
    plan::{Placed, Plan},
    switch::{for_guest, switch},
};
use glovebox_runtimes::rewrite::GlobalKind;

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
            let body =
                each(plan, |code, guest| compare::equals(code, guest.memory(), 1, Some((plan.shim_memory, 2)), 3));
            ((&[I32, I32, I32, I32], &[I32]), body)
        }
        "memory_is_zero" => {
            let body = each(plan, |code, guest| compare::equals(code, guest.memory(), 1, None, 2));
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
        "fuel_get" => ((&[], &[I64]), whole(|code| _ = code.global_get(plan.fuel).i64_const(1).i64_add())),
        "fuel_set" => ((&[I64], &[]), whole(|code| _ = code.local_get(0).i64_const(1).i64_sub().global_set(plan.fuel))),
        "unwound" => ((&[], &[I32]), whole(|code| _ = code.global_get(plan.reason))),
        "call_export" => ((&[I32, I32, I32, I32, I32], &[I32]), calls::exports(plan)),
        "call_table" => ((&[I32, I32, I32, I32, I32], &[I32]), calls::tables(plan)),
        _ => return None,
    })
}

/// Generates a function that does not depend on a guest.
fn whole(write: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    write(&mut code);
    code.end();
    function
}

/// Generates a function that operates on the guest in its first parameter.
fn each(plan: &Plan<'_>, write: impl Fn(&mut InstructionSink<'_>, &Placed<'_>)) -> Function {
    whole(|code| {
        for_guest(code, plan, |code, guest| {
            write(code, guest);
            code.return_();
        });
        code.unreachable();
    })
}

fn describe_len(plan: &Plan<'_>) -> Function {
    whole(|code| _ = code.i32_const(plan.description.1.cast_signed()))
}

fn describe(plan: &Plan<'_>) -> Function {
    let (segment, len) = plan.description;
    whole(|code| _ = code.local_get(0).i32_const(0).i32_const(len.cast_signed()).memory_init(plan.shim_memory, segment))
}

/// Copies from the image's data segment. Parameters: guest, offset in the segment, destination, length.
fn image(code: &mut InstructionSink<'_>, guest: &Placed<'_>, memory: u32) {
    code.local_get(2).local_get(1).local_get(3).memory_init(memory, guest.image);
}

/// Like `image`, for the library's data segment. Traps if the guest has no library.
fn library(code: &mut InstructionSink<'_>, guest: &Placed<'_>, memory: u32) {
    match guest.library {
        Some(segment) => _ = code.local_get(2).local_get(1).local_get(3).memory_init(memory, segment),
        None => _ = code.unreachable(),
    }
}

fn global_get(code: &mut InstructionSink<'_>, guest: &Placed<'_>) {
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

fn global_set(code: &mut InstructionSink<'_>, guest: &Placed<'_>) {
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

/// Returns the index and type of a mutable global, by its number.
fn global(guest: &Placed<'_>, number: u32) -> Option<(u32, GlobalKind)> {
    let (global, _) = guest.read.globals.get(crate::module::index(number))?;
    Some((global.index.saturating_add(guest.shift.globals), global.kind))
}
