//! Comparison of a guest's memory with the shim's memory or with zeros, used on whole memories when sessions are
//! switched.

use wasm_encoder::{BlockType, InstructionSink};

use crate::switch::access;

/// Bytes that one iteration of each loop compares. A loop hands over to the next one where another iteration would read
/// too far. Compared ranges are often shorter than two iterations of the first loop.
const STRIDES: [i32; 2] = [64, 8];

/// Gives 1 if `len` bytes are equal, else 0. Compares the guest's `memory` at `at` with the memory and address that
/// `with` names, or with zeros.
///
/// `at`, `len` and the address in `with` are locals, which the code changes. The code reads no byte beyond the ranges;
/// an address outside of its memory traps.
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
