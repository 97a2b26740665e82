//! Floating-point errors in numpy's loops over `float32` and `float64`.
//!
//! WebAssembly has no floating-point status flags. This build of numpy uses a word in memory instead, but sets it only
//! in loops over integers. The wrappers in this module set the word for loops over floating-point numbers. The
//! wrappers look for infinities and NaN in the results, and examine the inputs of each such result.
//!
//! In numpy's default setting, errors only cause warnings. To keep loops fast, the wrappers then check only the first
//! [`CHECKED_BY_DEFAULT`] elements, and all elements of slow loops such as `power`. The wrappers do not check
//! additions, subtractions and multiplications of more elements at all. In any other setting, the wrappers check all
//! elements, or none if all errors are ignored.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::{at, code::Context, function};
use crate::rewrite::RewriteError;

/// Number of elements to check at the start of a loop in the default setting. A larger number would slow down a
/// division of 1,000 numbers by more than 5%.
const CHECKED_BY_DEFAULT: i32 = 64;
/// Number of elements per call of a checked loop: few enough that the results are still in the processor's cache when
/// they are checked.
const CHUNK: i32 = 2048;

/// The address of the setting that the running operation fetched: the word after
/// [`LAST_BUFFER`](super::code::LAST_BUFFER). The setting has three bits per error: `UFUNC_ERR_IGNORE` is 0, and
/// `UFUNC_ERR_WARN` is 1.
const ERROR_MASK: u64 = 20;
/// numpy's default setting: warnings for divisions by zero, overflows and invalid values. Underflow is ignored.
const DEFAULT_MASK: i32 = 1 | 1 << 3 | 1 << 9;

// The properties of a loop, one bit each.
const TWO_INPUTS: i32 = 1;
const DOUBLE: i32 = 2;
/// The loop is slow, so all elements are checked even in the default setting.
const SLOW: i32 = 4;
/// An infinite result of finite inputs is a division by zero. Without this bit and the next two bits, an infinite
/// result is an overflow.
const POLE: i32 = 8;
/// An infinite result of finite inputs is a division by zero if the first input is zero.
const ZERO_FIRST: i32 = 16;
/// An infinite result of finite inputs is a division by zero if the second input is zero.
const ZERO_SECOND: i32 = 32;
/// The loop is fast, so a loop over more than [`CHECKED_BY_DEFAULT`] elements is not checked in the default setting.
const FAST: i32 = 64;

const ADD: i32 = TWO_INPUTS | FAST;
const REMAINDER: i32 = TWO_INPUTS;
const DIVIDE: i32 = TWO_INPUTS | ZERO_SECOND;
const POWER: i32 = TWO_INPUTS | SLOW | ZERO_FIRST;

/// Lists each loop twice: for `float64`, then for `float32`.
macro_rules! loops {
    ($($name:literal: $properties:expr,)*) => {
        &[$((concat!("DOUBLE_", $name), DOUBLE | $properties),)* $((concat!("FLOAT_", $name), $properties),)*]
    };
}

/// The checked loops and their properties. Each loop is a
/// `void f(char **args, intptr_t *count, intptr_t *steps, void *data)`.
pub(super) const LOOPS: &[(&str, i32)] = loops! {
    "add": ADD,
    "arccos": 0,
    "arccosh": 0,
    "arcsin": 0,
    "arctanh": POLE,
    "cos": SLOW,
    "cosh": 0,
    "divide": DIVIDE,
    "exp": 0,
    "exp2": 0,
    "expm1": 0,
    "floor_divide": DIVIDE,
    "log": POLE,
    "log10": POLE,
    "log1p": POLE,
    "log2": POLE,
    "multiply": ADD,
    "power": POWER,
    "reciprocal": ZERO_FIRST,
    "remainder": REMAINDER,
    "sin": SLOW,
    "sinh": 0,
    "sqrt": 0,
    "square": 0,
    "subtract": ADD,
    "tan": SLOW,
};

/// Returns the properties of the loop `name`, or `None` if the loop is not checked.
pub(super) fn bits_of(name: &str) -> Option<i32> {
    LOOPS.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits)
}

/// The function that fetches the error setting: `int f(int *buffer_size, int *mask)`.
pub(super) const FETCH_MASK: &str = "_get_bufsize_errmask";

/// The names of the added functions, in order.
pub(super) const ADDED: &[&str] = &[
    "begin_checks",
    "check_results",
    "next_chunk",
    "classify",
    "scalar_add",
    "scalar_subtract",
    "scalar_multiply",
    "scalar_divide",
    "scalar_power",
    "scalar_subtract_single",
    "scalar_multiply_single",
    "scalar_divide_single",
    "scalar_power_single",
];

/// The functions of the binary that the generated code calls.
pub(super) const CALLED: &[&str] =
    &["npy_set_floatstatus_divbyzero", "npy_set_floatstatus_invalid", "npy_set_floatstatus_overflow", "pow", "powf"];

/// Returns the encoded type of an added function.
pub(super) fn signature(name: &str) -> &'static [u8] {
    match name {
        "begin_checks" => &[0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f],
        "check_results" | "next_chunk" => &[0x60, 2, 0x7f, 0x7f, 1, 0x7f],
        "classify" => &[0x60, 4, 0x7f, 0x7c, 0x7c, 0x7c, 0],
        single if single.ends_with("_single") => &[0x60, 3, 0x7f, 0x7d, 0x7d, 0],
        _ => &[0x60, 3, 0x7f, 0x7c, 0x7c, 0],
    }
}

// Offsets in the frame of a checked loop on the C stack. The frame begins with the loop's arguments: three pointers, a
// count and three steps.
const COUNT: u64 = 12;
const COUNT_AT: i32 = 12;
const STEPS: u64 = 16;
const STEPS_AT: i32 = 16;
/// The offset of the pointers to the next chunk.
const NEXT: u64 = 28;
/// The offset of the original steps, as passed by the loop's caller.
const GIVEN_STEPS: u64 = 40;
/// The offset of the number of elements after this chunk.
const LEFT: u64 = 52;
/// The offset of the number of elements after this chunk that must still be checked.
const UNCHECKED: u64 = 56;
/// The offset of the number of elements in this chunk that must be checked.
const CHECKED: u64 = 60;
/// The offset of copies of inputs that the results overwrite.
const COPIES: i32 = 64;
const FRAME_BYTES: i32 = COPIES + 2 * 8 * CHUNK;

/// Emits the index of a loop's output.
fn output(code: &mut InstructionSink<'_>, loop_bits: u32) {
    code.local_get(loop_bits).i32_const(TWO_INPUTS).i32_and().i32_const(1).i32_add();
}

/// Emits the size of an element.
fn element_bytes(code: &mut InstructionSink<'_>, loop_bits: u32) {
    code.i32_const(4).local_get(loop_bits).i32_const(DOUBLE).i32_and().i32_const(1).i32_shr_u().i32_shl();
}

impl Context<'_> {
    pub(super) fn added_for_status(&self, name: &str) -> Result<Function, RewriteError> {
        match name {
            "begin_checks" => self.begin_checks(),
            "check_results" => self.check_results(),
            "next_chunk" => Ok(next_chunk()),
            "classify" => self.classify(),
            _ => self.scalar(name),
        }
    }

    /// Wraps [`FETCH_MASK`]. Stores the setting at [`ERROR_MASK`].
    pub(super) fn fetch_mask(&self, old: u32) -> Function {
        let (size, mask, result, seen) = (0, 1, 2, 3);
        function(&[(2, ValType::I32)], |code| {
            code.local_get(size).local_get(mask).call(old).local_set(result);
            code.local_get(mask).i32_load(at(0)).local_set(seen);
            // Write the word only if it changes, so that the memory page stays shared with the image.
            code.local_get(seen).i32_const(0).i32_load(at(ERROR_MASK)).i32_ne().if_(BlockType::Empty);
            code.i32_const(0).local_get(seen).i32_store(at(ERROR_MASK)).end();
            code.local_get(result).end();
        })
    }

    /// Wraps a loop. Calls the loop in chunks and checks the results of each chunk.
    pub(super) fn checked_loop(&self, old: u32, loop_bits: i32) -> Result<Function, RewriteError> {
        let (args, count, steps, data, frame) = (0, 1, 2, 3, 4);
        let (begin, check) = (self.call("begin_checks")?, self.call("check_results")?);
        Ok(function(&[(1, ValType::I32)], |code| {
            code.local_get(args).local_get(count).local_get(steps).i32_const(loop_bits).call(begin);
            code.local_tee(frame).i32_eqz().if_(BlockType::Empty);
            code.local_get(args).local_get(count).local_get(steps).local_get(data).call(old).return_().end();
            code.loop_(BlockType::Empty);
            code.local_get(frame);
            code.local_get(frame).i32_const(COUNT_AT).i32_add();
            code.local_get(frame).i32_const(STEPS_AT).i32_add();
            code.local_get(data).call(old);
            code.local_get(frame).i32_const(loop_bits).call(check).br_if(0).end().end();
        }))
    }

    /// `f(args, count, steps, loop)`: returns the frame of a checked loop, with its first chunk. Returns 0 for a loop
    /// that is not checked, such as a reduction.
    fn begin_checks(&self) -> Result<Function, RewriteError> {
        let (args, count, steps, loop_bits, mask, frame, limit) = (0, 1, 2, 3, 4, 5, 6);
        let next_chunk = self.call("next_chunk")?;
        Ok(function(&[(3, ValType::I32)], |code| {
            code.i32_const(0).i32_load(at(ERROR_MASK)).local_tee(mask).i32_eqz();
            code.local_get(count).i32_load(at(0)).i32_const(0).i32_le_s().i32_or();
            code.local_get(steps);
            output(code, loop_bits);
            code.i32_const(2).i32_shl().i32_add().i32_load(at(0)).i32_eqz();
            // The step of the output is zero in a reduction, but also if there is only one element.
            code.local_get(count).i32_load(at(0)).i32_const(1).i32_ne().i32_and().i32_or();
            code.if_(BlockType::Empty).i32_const(0).return_().end();
            code.local_get(count).i32_load(at(0)).local_set(limit);
            code.local_get(mask).i32_const(DEFAULT_MASK).i32_eq();
            code.local_get(loop_bits).i32_const(SLOW).i32_and().i32_eqz().i32_and();
            code.local_get(limit).i32_const(CHECKED_BY_DEFAULT).i32_gt_s().i32_and();
            code.if_(BlockType::Empty).i32_const(CHECKED_BY_DEFAULT).local_set(limit);
            code.local_get(loop_bits).i32_const(FAST).i32_and();
            code.if_(BlockType::Empty).i32_const(0).return_().end().end();
            code.global_get(0).i32_const(FRAME_BYTES).i32_sub().local_tee(frame).global_set(0);
            for word in 0..3 {
                code.local_get(frame).local_get(args).i32_load(at(4 * word)).i32_store(at(NEXT + 4 * word));
                code.local_get(frame).local_get(steps).i32_load(at(4 * word)).i32_store(at(GIVEN_STEPS + 4 * word));
                if word == 1 {
                    code.local_get(loop_bits).i32_const(TWO_INPUTS).i32_and().if_(BlockType::Empty);
                }
            }
            code.end();
            code.local_get(frame).local_get(count).i32_load(at(0)).i32_store(at(LEFT));
            code.local_get(frame).local_get(limit).i32_store(at(UNCHECKED));
            code.local_get(frame).local_get(loop_bits).call(next_chunk).drop();
            code.local_get(frame).end();
        }))
    }

    /// `f(frame, loop)`: checks the results of a chunk and prepares the next chunk. Returns `true` if there is a next
    /// chunk.
    fn check_results(&self) -> Result<Function, RewriteError> {
        let (frame, loop_bits, result, step, left, sum) = (0, 1, 2, 3, 4, 5);
        let (first, first_step, second, second_step) = (6, 7, 8, 9);
        let (next_chunk, classify) = (self.call("next_chunk")?, self.call("classify")?);
        let load = |code: &mut InstructionSink<'_>, pointer: u32| {
            code.local_get(loop_bits).i32_const(DOUBLE).i32_and().if_(BlockType::Result(ValType::F64));
            code.local_get(pointer).f64_load(at(0)).else_().local_get(pointer).f32_load(at(0)).f64_promote_f32().end();
        };
        let step_by = |code: &mut InstructionSink<'_>, pointer: u32, step: u32| {
            code.local_get(pointer).local_get(step).i32_add().local_set(pointer);
        };
        let locals = [(3, ValType::I32), (1, ValType::F64), (4, ValType::I32)];
        Ok(function(&locals, |code| {
            code.block(BlockType::Empty);
            code.local_get(frame).i32_load(at(CHECKED)).local_tee(left).i32_eqz().br_if(0);
            code.local_get(frame);
            output(code, loop_bits);
            code.i32_const(2).i32_shl().i32_add().local_tee(step).i32_load(at(0)).local_set(result);
            code.local_get(step).i32_load(at(STEPS)).local_set(step);
            // If the sum is finite, all numbers are finite. Otherwise, the code below examines each number. Each
            // iteration adds eight numbers in a tree, so that the processor can overlap the additions.
            for (bytes, is_double) in [(8_u64, 1), (4, 0)] {
                code.local_get(loop_bits).i32_const(DOUBLE).i32_and().i32_const(1).i32_shr_u().i32_const(is_double);
                code.i32_eq().local_get(step).i32_const(if is_double == 1 { 8 } else { 4 }).i32_eq().i32_and();
                code.if_(BlockType::Empty).loop_(BlockType::Empty);
                code.local_get(left).i32_const(8).i32_ge_s().if_(BlockType::Empty);
                for pair in 0..8 {
                    code.local_get(result);
                    if is_double == 1 {
                        code.f64_load(at(bytes * pair));
                    } else {
                        code.f32_load(at(bytes * pair)).f64_promote_f32();
                    }
                    // The order of additions is ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
                    for _ in 0..(pair + 1).trailing_zeros() {
                        code.f64_add();
                    }
                }
                code.local_get(sum).f64_add().local_set(sum);
                code.local_get(result).i32_const(if is_double == 1 { 64 } else { 32 }).i32_add().local_set(result);
                code.local_get(left).i32_const(8).i32_sub().local_set(left).br(1).end().end().end();
            }
            code.loop_(BlockType::Empty).local_get(left).if_(BlockType::Empty);
            load(code, result);
            code.local_get(sum).f64_add().local_set(sum);
            step_by(code, result, step);
            code.local_get(left).i32_const(1).i32_sub().local_set(left).br(1).end().end();
            code.local_get(sum).local_get(sum).f64_sub().f64_const(0.0.into()).f64_eq().br_if(0);

            code.local_get(frame).i32_load(at(CHECKED)).local_set(left);
            code.local_get(frame);
            output(code, loop_bits);
            code.i32_const(2).i32_shl().i32_add().i32_load(at(0)).local_set(result);
            code.local_get(frame).i32_load(at(0)).local_set(first);
            code.local_get(frame).i32_load(at(STEPS)).local_set(first_step);
            // If there is only one input, it is also used as the second input.
            code.local_get(frame).local_get(loop_bits).i32_const(TWO_INPUTS).i32_and().i32_const(2).i32_shl();
            code.i32_add().local_tee(second_step).i32_load(at(0)).local_set(second);
            code.local_get(second_step).i32_load(at(STEPS)).local_set(second_step);
            code.loop_(BlockType::Empty).local_get(left).if_(BlockType::Empty);
            code.local_get(loop_bits);
            load(code, first);
            load(code, second);
            load(code, result);
            code.call(classify);
            step_by(code, first, first_step);
            step_by(code, second, second_step);
            step_by(code, result, step);
            code.local_get(left).i32_const(1).i32_sub().local_set(left).br(1).end().end();
            code.end();
            code.local_get(frame).local_get(loop_bits).call(next_chunk).end();
        }))
    }

    /// `f(loop, first, second, result)`: sets the status for a result.
    fn classify(&self) -> Result<Function, RewriteError> {
        let (loop_bits, first, second, result) = (0, 1, 2, 3);
        let invalid = self.call("npy_set_floatstatus_invalid")?;
        let (pole, overflow) =
            (self.call("npy_set_floatstatus_divbyzero")?, self.call("npy_set_floatstatus_overflow")?);
        Ok(function(&[], |code| {
            let is_finite = |code: &mut InstructionSink<'_>, value| {
                code.local_get(value).local_get(value).f64_sub().f64_const(0.0.into()).f64_eq();
            };
            let is_number = |code: &mut InstructionSink<'_>, value| {
                code.local_get(value).local_get(value).f64_eq();
            };
            is_finite(code, result);
            code.if_(BlockType::Empty).return_().end();
            is_number(code, result);
            code.i32_eqz().if_(BlockType::Empty);
            is_number(code, first);
            is_number(code, second);
            code.i32_and().if_(BlockType::Empty).call(invalid).end().return_().end();
            is_finite(code, first);
            is_finite(code, second);
            code.i32_and().i32_eqz().if_(BlockType::Empty).return_().end();
            code.local_get(loop_bits).i32_const(POLE).i32_and();
            for (bit, input) in [(ZERO_FIRST, first), (ZERO_SECOND, second)] {
                code.local_get(loop_bits).i32_const(bit).i32_and().i32_const(0).i32_ne();
                code.local_get(input).f64_const(0.0.into()).f64_eq().i32_and().i32_or();
            }
            code.if_(BlockType::Empty).call(pole).else_().call(overflow).end().end();
        }))
    }

    /// `f(result, first, second)`: performs a scalar operation and stores its result.
    fn scalar(&self, name: &str) -> Result<Function, RewriteError> {
        let (pointer, first, second) = (0, 1, 2);
        let (operation, is_single) = match name.strip_suffix("_single") {
            Some(operation) => (operation, true),
            None => (name, false),
        };
        let (loop_bits, classify) = (
            match operation {
                "scalar_divide" => DIVIDE,
                "scalar_power" => POWER,
                _ => ADD,
            },
            self.call("classify")?,
        );
        let power = self.call(if is_single { "powf" } else { "pow" })?;
        let is_known = matches!(
            operation,
            "scalar_add" | "scalar_subtract" | "scalar_multiply" | "scalar_divide" | "scalar_power"
        );
        if !is_known {
            return Err(RewriteError::NoFunction(name.to_owned()));
        }
        Ok(function(&[], |code| {
            code.local_get(pointer).local_get(first).local_get(second);
            match (operation, is_single) {
                ("scalar_add", false) => code.f64_add(),
                ("scalar_subtract", false) => code.f64_sub(),
                ("scalar_multiply", false) => code.f64_mul(),
                ("scalar_divide", false) => code.f64_div(),
                ("scalar_subtract", true) => code.f32_sub(),
                ("scalar_multiply", true) => code.f32_mul(),
                ("scalar_divide", true) => code.f32_div(),
                _ => code.call(power),
            };
            if is_single {
                code.f32_store(at(0)).i32_const(loop_bits).local_get(first).f64_promote_f32();
                code.local_get(second).f64_promote_f32().local_get(pointer).f32_load(at(0)).f64_promote_f32();
            } else {
                code.f64_store(at(0)).i32_const(loop_bits).local_get(first);
                code.local_get(second).local_get(pointer).f64_load(at(0));
            }
            code.call(classify).end();
        }))
    }
}

/// `f(frame, loop)`: prepares the next chunk. After the last chunk, frees the frame and returns 0.
fn next_chunk() -> Function {
    let (frame, loop_bits, count, word, bytes, copy, input, left) = (0, 1, 2, 3, 4, 5, 6, 7);
    function(&[(6, ValType::I32)], |code| {
        code.local_get(frame).i32_load(at(LEFT)).local_tee(count).i32_eqz().if_(BlockType::Empty);
        code.local_get(frame).i32_const(FRAME_BYTES).i32_add().global_set(0).i32_const(0).return_().end();
        code.local_get(frame).i32_const(0).i32_store(at(CHECKED));
        // Elements that are not checked form one chunk.
        code.local_get(frame).i32_load(at(UNCHECKED)).if_(BlockType::Empty);
        code.local_get(frame).i32_load(at(UNCHECKED)).local_tee(count).i32_const(CHUNK).i32_gt_s();
        code.if_(BlockType::Empty).i32_const(CHUNK).local_set(count).end();
        code.local_get(frame).local_get(count).i32_store(at(CHECKED));
        code.local_get(frame).local_get(frame).i32_load(at(UNCHECKED)).local_get(count).i32_sub();
        code.i32_store(at(UNCHECKED));
        // Include the remaining elements in the last checked chunk, unless results overwrite inputs.
        code.local_get(frame).i32_load(at(UNCHECKED)).i32_eqz();
        for second in [false, true] {
            code.local_get(frame);
            if second {
                code.local_get(loop_bits).i32_const(TWO_INPUTS).i32_and().i32_const(2).i32_shl().i32_add();
            }
            code.i32_load(at(NEXT)).local_get(frame);
            output(code, loop_bits);
            code.i32_const(2).i32_shl().i32_add().i32_load(at(NEXT)).i32_ne().i32_and();
        }
        code.if_(BlockType::Empty).local_get(frame).i32_load(at(LEFT)).local_set(count).end();
        code.end();
        code.local_get(frame).local_get(count).i32_store(at(COUNT));
        code.local_get(frame).local_get(frame).i32_load(at(LEFT)).local_get(count).i32_sub().i32_store(at(LEFT));
        for word in [0, 4, 8] {
            code.local_get(frame).local_get(frame).i32_load(at(NEXT + word)).i32_store(at(word));
            code.local_get(frame).local_get(frame).i32_load(at(GIVEN_STEPS + word)).i32_store(at(STEPS + word));
            code.local_get(frame).local_get(frame).i32_load(at(NEXT + word));
            code.local_get(frame).i32_load(at(GIVEN_STEPS + word)).local_get(count).i32_mul().i32_add();
            code.i32_store(at(NEXT + word));
        }
        code.local_get(frame).i32_load(at(CHECKED)).i32_eqz().if_(BlockType::Empty).i32_const(1).return_().end();
        // Copy each input that the results overwrite, so that the checks can read it.
        element_bytes(code, loop_bits);
        code.local_set(bytes);
        for second in [false, true] {
            let word_offset = if second { 4 } else { 0 };
            if second {
                code.local_get(loop_bits).i32_const(TWO_INPUTS).i32_and().if_(BlockType::Empty);
            }
            code.local_get(frame).i32_load(at(word_offset)).local_tee(input);
            code.local_get(frame);
            output(code, loop_bits);
            code.i32_const(2).i32_shl().i32_add().i32_load(at(0)).i32_eq().if_(BlockType::Empty);
            code.local_get(frame).i32_const(COPIES + if second { 8 * CHUNK } else { 0 }).i32_add().local_set(copy);
            code.local_get(frame).i32_load(at(STEPS + word_offset)).local_set(word);
            code.local_get(frame).local_get(copy).i32_store(at(word_offset));
            code.local_get(frame).local_get(bytes).i32_store(at(STEPS + word_offset));
            code.local_get(count).local_set(left);
            code.loop_(BlockType::Empty).local_get(left).if_(BlockType::Empty);
            code.local_get(loop_bits).i32_const(DOUBLE).i32_and().if_(BlockType::Empty);
            code.local_get(copy).local_get(input).i64_load(at(0)).i64_store(at(0)).else_();
            code.local_get(copy).local_get(input).i32_load(at(0)).i32_store(at(0)).end();
            code.local_get(copy).local_get(bytes).i32_add().local_set(copy);
            code.local_get(input).local_get(word).i32_add().local_set(input);
            code.local_get(left).i32_const(1).i32_sub().local_set(left).br(1).end().end();
            code.end();
            if second {
                code.end();
            }
        }
        code.i32_const(1).end();
    })
}
