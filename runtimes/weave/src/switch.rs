//! Code that goes one way or another by a number, and its accesses to memories.

use wasm_encoder::{BlockType, InstructionSink, MemArg};

use crate::plan::{Placed, Plan};

/// Does something where the guest's number is the first local; goes on behind it for another number.
pub(crate) fn for_guest(
    code: &mut InstructionSink<'_>,
    plan: &Plan<'_>,
    write: impl Fn(&mut InstructionSink<'_>, &Placed<'_>),
) {
    for (number, guest) in (0i32..).zip(&plan.guests) {
        code.local_get(0).i32_const(number).i32_eq().if_(BlockType::Empty);
        write(code, guest);
        code.end();
    }
}

/// Goes to the case whose number a local holds. Each must leave the function; what follows is for any other number.
pub(crate) fn switch(
    code: &mut InstructionSink<'_>,
    selector: u32,
    cases: u32,
    write: impl FnMut(&mut InstructionSink<'_>, u32),
) {
    let targets: Vec<u32> = (0..cases).collect();
    switch_by(code, selector, &targets, cases, write);
}

/// As [`switch`], where `targets` says which case a number stands for.
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

/// An access to a memory, nothing known of its alignment.
pub(crate) fn access(memory: u32, offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: memory }
}
