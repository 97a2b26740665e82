//! Dispatch by number, and memory accesses.

use wasm_encoder::{BlockType, InstructionSink, MemArg};

use crate::plan::{Placed, Plan};

/// Writes code for the guest whose number is in the first local. Execution continues behind it for unknown numbers.
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

/// Branches to the case whose number is in a local. Each case must leave the function; the code after the switch
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

/// Like [`switch`], with `targets` mapping each number to its case.
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

/// Returns an access to a memory, without assumptions about alignment.
pub(crate) fn access(memory: u32, offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: memory }
}
