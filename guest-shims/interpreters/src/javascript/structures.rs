//! Locates the interpreter's private state: fields of its structures, identified by their content and by how it
//! changes.
//!
//! The builds contain no field offsets, so the driver searches each structure. There must be exactly one match, and
//! the match must behave as expected. Otherwise, preparation fails, so that no script runs with a wrong address.

use super::{
    guest::{EVAL_COMPILE_ONLY, EVAL_MODULE, Guest, JsValue},
    state::BootedGuest,
};
use crate::{DriverError, Value};

/// Maximum size of the shadow stack that the first call uses before the runtime records the start of the stack, in
/// bytes.
const FIRST_FRAME_BYTES: u32 = 4 << 10;

/// A stack size that occurs nowhere else in the runtime.
const STACK_MARK: u32 = 0x5a17_c0de;
/// A rejection reason that occurs nowhere else in memory.
const REASON_MARK: u32 = 0x3e1e_c7ed;

/// A binding that identifies the table of bindings.
const BINDING: &str = "gloveboxBinding";
const BINDING_VALUE: u32 = 7;

/// The number of bytes to search in `JSRuntime` and `JSContext`. Both structures are smaller.
const STRUCT_BYTES: u32 = 1 << 10;

/// The number of bytes to search in `JSModuleDef` for its list link.
const MODULE_BYTES: u32 = 32;

/// Maximum memory size during boot, in bytes.
const MAX_MEMORY_BYTES: u64 = 16 << 20;

/// The numbers of loop iterations to count. The numbers differ, so that no other field changes by the same amounts.
const LOOPS: [i64; 2] = [1_234, 4_321];
/// Maximum number of jumps per loop iteration that decrement the interrupt counter.
const MAX_JUMPS: i64 = 2;
/// Maximum number of decrements by calls outside the loop's iterations while a loop is evaluated.
const MAX_CALLS: i64 = 50;
/// The interpreter's initial counter (`JS_INTERRUPT_COUNTER_INIT`).
const COUNTER_START: i64 = 10_000;

/// Finds the adjacent fields `stack_size`, `stack_top` and `stack_limit` in the runtime, and sets the limit directly:
/// one build ignores its own limit on WASI. Returns the address and the value of `stack_limit`.
pub(super) fn limit_stack(guest: &mut Guest<'_>, stack_top: u32, bytes: u32) -> Result<(u32, u32), DriverError> {
    let set = |guest: &mut Guest<'_>, bytes: u32| {
        guest.call("JS_SetMaxStackSize", &[Value::I32(guest.runtime), Value::I32(bytes)])
    };
    set(guest, STACK_MARK)?;
    let mut found = None;
    for offset in (0..STRUCT_BYTES).step_by(4) {
        if guest.read_word(guest.runtime + offset)? == STACK_MARK && found.replace(guest.runtime + offset).is_some() {
            return Err(fault("its stack limit is ambiguous"));
        }
    }
    let size_at = found.ok_or_else(|| fault("it has no stack limit"))?;
    set(guest, bytes)?;
    let top = guest.read_word(size_at + 4)?;
    if top > stack_top || stack_top - top > FIRST_FRAME_BYTES {
        return Err(fault("its stack is not at the assigned address"));
    }
    let limit = top - bytes;
    guest.write_word(size_at + 8, limit)?;
    Ok((size_at + 8, limit))
}

/// Computes the state transition of `xorshift64star`, without its final multiplication.
fn next_random(mut state: u64) -> u64 {
    state ^= state >> 12;
    state ^= state << 25;
    state ^ (state >> 27)
}

impl BootedGuest<'_> {
    /// Finds the head of the list of unhandled rejections. Creates a rejection to identify its entry in the list.
    pub(super) fn find_rejections(&mut self) -> Result<u32, DriverError> {
        let promise = self.value_of("glovebox:rejection", &format!("Promise.reject({REASON_MARK})"), 0)?;
        let reason = JsValue::int(REASON_MARK);
        let mut wanted = promise.0.to_le_bytes().to_vec();
        wanted.extend(reason.0.to_le_bytes());
        let bytes = self.guest.machine.memory_bytes();
        if bytes > MAX_MEMORY_BYTES {
            return Err(fault("its memory is too large"));
        }
        let mut memory = vec![0; usize::try_from(bytes).unwrap_or_default()];
        self.guest.machine.read(0, &mut memory)?;
        let mut head = None;
        for entry in (8..memory.len().saturating_sub(16)).step_by(8) {
            if memory.get(entry..entry + 16) != Some(wanted.as_slice()) {
                continue;
            }
            let entry = u32::try_from(entry - 8).map_err(|_| fault("its memory is too large"))?;
            let (previous, next) = (self.guest.read_word(entry)?, self.guest.read_word(entry + 4)?);
            // The list has only one entry, so both of its links lead to the head, and both of the head's links lead to
            // the entry.
            if previous == next
                && u64::from(next) + 8 <= bytes
                && self.guest.read_word(next)? == entry
                && self.guest.read_word(next + 4)? == entry
                && head.replace(next).is_some()
            {
                return Err(fault("its list of rejections is ambiguous"));
            }
        }
        self.at.rejections = head.ok_or_else(|| fault("it has no list of rejections"))?;
        self.guest.mark_handled(promise, reason)?;
        self.guest.free(promise)?;
        if self.rejection()?.is_some() {
            return Err(fault("its list of rejections cannot be emptied"));
        }
        Ok(self.at.rejections)
    }

    /// Finds the context's two adjacent tables of global variables.
    pub(super) fn find_global(&mut self) -> Result<u32, DriverError> {
        let context = [Value::I32(self.at.context)];
        let global = self.guest.call_value("JS_GetGlobalObject", &context)?;
        self.guest.free(global)?;
        let mut found = None;
        for place in (0..STRUCT_BYTES).step_by(8).map(|offset| self.at.context + offset) {
            if self.guest.read_long(place)? == global.0 && found.replace(place).is_some() {
                return Err(fault("its global object is ambiguous"));
            }
        }
        self.at.global = found.ok_or_else(|| fault("it has no global object"))?;

        let bound = self.value_of("glovebox:binding", &format!("let {BINDING} = {BINDING_VALUE}"), 0)?;
        self.guest.free(bound)?;
        let lexicals = self.lexicals()?;
        if lexicals.address().is_none() {
            return Err(fault("its table of bindings is not at the expected address"));
        }
        self.guest.write_text(self.at.key, BINDING.as_bytes())?;
        let value = self.guest.property(lexicals, self.at.key)?;
        let bindings = self.value_of("glovebox:binding", &format!("({{{BINDING}: 0}})"), 0)?;
        let removed = self.ask(self.at.redeclare, &[lexicals, bindings, bindings])?;
        self.guest.free(bindings)?;
        if value != JsValue::int(BINDING_VALUE) {
            return Err(fault("its table of bindings does not contain a new `let`"));
        }
        if removed != Some(JsValue::int(1)) {
            return Err(fault("it cannot remove a binding"));
        }
        Ok(self.at.global)
    }

    /// Finds the state of `Math.random`: the only field of the context that changes like the generator.
    pub(super) fn find_random_state(&mut self) -> Result<u32, DriverError> {
        let places: Vec<u32> = (0..STRUCT_BYTES).step_by(8).map(|offset| self.at.context + offset).collect();
        let mut before = Vec::with_capacity(places.len());
        for place in &places {
            before.push(self.guest.read_long(*place)?);
        }
        let drawn = self.value_of("glovebox:random", "Math.random()", 0)?;
        self.guest.free(drawn)?;
        let mut found = None;
        for (place, before) in places.into_iter().zip(before) {
            let after = self.guest.read_long(place)?;
            if before != 0 && after == next_random(before) && found.replace(place).is_some() {
                return Err(fault("its random state is ambiguous"));
            }
        }
        found.ok_or_else(|| fault("it has no random state"))
    }

    /// Finds `JSContext.interrupt_counter`, which every call and every loop iteration decrements.
    pub(super) fn find_interrupt_counter(&mut self) -> Result<u32, DriverError> {
        let mut places: Vec<u32> = (0..STRUCT_BYTES).step_by(4).map(|offset| self.at.context + offset).collect();
        for rounds in LOOPS {
            let mut before = Vec::with_capacity(places.len());
            for place in &places {
                before.push(i64::from(self.guest.read_word(*place)?));
            }
            let looped = self.value_of("glovebox:loop", &format!("for (let i = 0; i < {rounds}; i++);"), 0)?;
            self.guest.free(looped)?;
            let mut moved = Vec::new();
            for (place, before) in places.into_iter().zip(before) {
                let after = i64::from(self.guest.read_word(place)?);
                let counted = (before - after).rem_euclid(COUNTER_START);
                let is_counted = (1..=MAX_JUMPS).any(|jumps| (0..MAX_CALLS).contains(&(counted - rounds * jumps)));
                if before <= COUNTER_START && after <= COUNTER_START && is_counted {
                    moved.push(place);
                }
            }
            places = moved;
        }
        match places.as_slice() {
            [place] => Ok(*place),
            _ => Err(fault("its interrupt counter is missing or ambiguous")),
        }
    }

    /// Finds the head of the context's list of modules, and the offset of the list link in a module. The newest module
    /// is last in the list.
    pub(super) fn find_modules(&mut self) -> Result<(u32, u32), DriverError> {
        let program = self.value_of("glovebox:module", "0", EVAL_MODULE | EVAL_COMPILE_ONLY)?;
        let module = program.module().ok_or_else(|| fault("it cannot compile modules"))?;
        let context = self.at.context..self.at.context + STRUCT_BYTES;
        let mut found = None;
        for link in (0..MODULE_BYTES).step_by(4) {
            let head = self.guest.read_word(module + link + 4)?;
            if context.contains(&head)
                && self.guest.read_word(head)? == module + link
                && found.replace((head, link)).is_some()
            {
                return Err(fault("its list of modules is ambiguous"));
            }
        }
        let (head, link) = found.ok_or_else(|| fault("it has no list of modules"))?;
        let before = self.guest.read_word(module + link)?;
        let done = self.guest.run(program)?;
        self.guest.free(done)?;
        while self.guest.job()?.is_some() {}
        (self.at.modules, self.at.module_link) = (head, link);
        if !self.free_module(module)? || self.guest.read_word(head)? != before {
            return Err(fault("its modules cannot be freed"));
        }
        Ok((head, link))
    }
}

pub(super) fn fault(what: impl Into<String>) -> DriverError {
    DriverError::Boot(what.into())
}
