//! QuickJS's C API, called through a [`Machine`], and its values as a 32-bit build represents them.

use super::Build;
use crate::{Callee, DriverError, Machine, MachineError, Value};

/// Evaluates the source as a module and not as a script (`JS_EVAL_TYPE_MODULE`).
pub(super) const EVAL_MODULE: u32 = 1;
/// Applies strict mode to a script (`JS_EVAL_FLAG_STRICT`).
pub(super) const EVAL_STRICT: u32 = 1 << 3;
/// Compiles without running, and returns a program for `JS_EvalFunction` (`JS_EVAL_FLAG_COMPILE_ONLY`).
pub(super) const EVAL_COMPILE_ONLY: u32 = 1 << 5;
/// Allows top-level `await` in a script, which then returns a promise (`JS_EVAL_FLAG_ASYNC`).
pub(super) const EVAL_ASYNC: u32 = 1 << 7;

/// Maximum length of a string read from the guest, in bytes: the limit for a value's JSON, and more than any other text
/// needs.
const MAX_STRING_BYTES: u32 = 1 << 20;

/// The size of the scratch area, in bytes. Results by address are at its start.
pub(super) const SCRATCH_BYTES: u32 = 64;
/// The offset of arguments in the scratch area.
const ARGUMENTS_OFFSET: u32 = 16;

/// A QuickJS runtime and its only context.
pub(super) struct Guest<'a> {
    pub(super) machine: &'a mut dyn Machine,
    pub(super) build: &'static Build,
    /// The `JSRuntime *`.
    pub(super) runtime: u32,
    /// The `JSContext *`.
    pub(super) context: u32,
    /// The address of the driver's scratch area of [`SCRATCH_BYTES`].
    pub(super) scratch: u32,
}

/// Extracts the `u32` result of a call to `name`.
fn word(result: Option<Value>, name: &str) -> Result<u32, MachineError> {
    match result {
        Some(Value::I32(word)) => Ok(word),
        _ => Err(MachineError::Missing(name.to_owned())),
    }
}

impl Guest<'_> {
    /// Calls the export `name` and ignores its result.
    pub(super) fn call(&mut self, name: &str, args: &[Value]) -> Result<(), MachineError> {
        self.machine.call(Callee::Export(name), args).map(drop)
    }

    /// Calls the export `name`, which returns a number or an address.
    pub(super) fn call_word(&mut self, name: &str, args: &[Value]) -> Result<u32, MachineError> {
        word(self.machine.call(Callee::Export(name), args)?, name)
    }

    /// Calls the export `name`, which returns a `JSValue`.
    pub(super) fn call_value(&mut self, name: &str, args: &[Value]) -> Result<JsValue, MachineError> {
        match self.machine.call(Callee::Export(name), args)? {
            Some(Value::I64(bits)) => Ok(JsValue(bits)),
            _ => Err(MachineError::Missing(name.to_owned())),
        }
    }

    /// Allocates guest memory by calling the guest's `malloc`. Returns `None` if the guest is out of memory.
    pub(super) fn allocate(&mut self, bytes: u32) -> Result<Option<u32>, MachineError> {
        let at = self.call_word("malloc", &[Value::I32(bytes)])?;
        Ok((at != 0).then_some(at))
    }

    /// Frees a block of guest memory by calling the guest's `free`.
    pub(super) fn release(&mut self, at: u32) -> Result<(), MachineError> {
        self.call("free", &[Value::I32(at)])
    }

    /// Releases one reference to a value.
    pub(super) fn free(&mut self, value: JsValue) -> Result<(), MachineError> {
        self.call("JS_FreeValue", &[Value::I32(self.context), Value::I64(value.0)])
    }

    /// Takes the pending exception. The caller owns the reference.
    pub(super) fn exception(&mut self) -> Result<JsValue, MachineError> {
        self.call_value("JS_GetException", &[Value::I32(self.context)])
    }

    /// Calls `JS_Eval` on zero-terminated text.
    pub(super) fn eval(&mut self, at: u32, bytes: u32, name: u32, flags: u32) -> Result<JsValue, MachineError> {
        let args = [self.context, at, bytes, name, flags].map(Value::I32);
        self.call_value("JS_Eval", &args)
    }

    /// Runs a program compiled with [`EVAL_COMPILE_ONLY`], and consumes it.
    pub(super) fn run(&mut self, compiled: JsValue) -> Result<JsValue, MachineError> {
        self.call_value("JS_EvalFunction", &[Value::I32(self.context), Value::I64(compiled.0)])
    }

    /// Calls a function value with at most six arguments, without consuming them.
    pub(super) fn apply(&mut self, function: JsValue, arguments: &[JsValue]) -> Result<JsValue, MachineError> {
        debug_assert!(arguments.len() <= 6, "the scratch area has room for six arguments");
        let at = self.scratch + ARGUMENTS_OFFSET;
        let mut count = 0;
        for (argument, offset) in arguments.iter().zip((0..SCRATCH_BYTES - ARGUMENTS_OFFSET).step_by(8)) {
            self.machine.write(at + offset, &argument.0.to_le_bytes())?;
            count += 1;
        }
        let args = [
            Value::I32(self.context),
            Value::I64(function.0),
            Value::I64(JsValue::UNDEFINED.0),
            Value::I32(count),
            Value::I32(at),
        ];
        self.call_value("JS_Call", &args)
    }

    /// Returns the property with the zero-terminated name at `name`. The caller owns the reference.
    pub(super) fn property(&mut self, object: JsValue, name: u32) -> Result<JsValue, MachineError> {
        self.call_value("JS_GetPropertyStr", &[Value::I32(self.context), Value::I64(object.0), Value::I32(name)])
    }

    /// Runs one pending job. Returns `None` if no job was pending, and `false` if the job threw an exception.
    pub(super) fn job(&mut self) -> Result<Option<bool>, MachineError> {
        let left = self.call_word("JS_ExecutePendingJob", &[Value::I32(self.runtime), Value::I32(self.scratch)])?;
        Ok(match left {
            0 => None,
            1 => Some(true),
            // A negative result means that the job threw an exception.
            _ => Some(false),
        })
    }

    /// Returns a value as text, truncated to the maximum length, with invalid UTF-8 replaced; `None` if the value
    /// cannot be converted.
    pub(super) fn text(&mut self, value: JsValue) -> Result<Option<String>, MachineError> {
        let bytes = self.bytes(value, MAX_STRING_BYTES)?;
        Ok(bytes.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns a value as text; `None` if it cannot be converted, is too long, or is not UTF-8.
    pub(super) fn whole_text(&mut self, value: JsValue) -> Result<Option<String>, MachineError> {
        self.text_within(value, MAX_STRING_BYTES)
    }

    /// Like [`whole_text`](Self::whole_text), but for a string of at most `max` bytes.
    pub(super) fn text_within(&mut self, value: JsValue, max: u32) -> Result<Option<String>, MachineError> {
        let whole = self.bytes(value, max)?.filter(|(_, is_whole)| *is_whole);
        Ok(whole.and_then(|(bytes, _)| String::from_utf8(bytes).ok()))
    }

    /// Returns the first `max` bytes of a value's text, and `true` if they are the whole text.
    fn bytes(&mut self, value: JsValue, max: u32) -> Result<Option<(Vec<u8>, bool)>, MachineError> {
        let args = [Value::I32(self.context), Value::I32(self.scratch), Value::I64(value.0), Value::I32(0)];
        let at = self.call_word("JS_ToCStringLen2", &args)?;
        if at == 0 {
            self.discard_exception()?;
            return Ok(None);
        }
        let bytes = self.read_word(self.scratch)?;
        let mut text = vec![0; usize::try_from(bytes.min(max)).unwrap_or_default()];
        self.machine.read(at, &mut text)?;
        self.call("JS_FreeCString", &[Value::I32(self.context), Value::I32(at)])?;
        Ok(Some((text, bytes <= max)))
    }

    /// Adds a reference to a value.
    pub(super) fn hold(&mut self, value: JsValue) -> Result<JsValue, MachineError> {
        self.call_value("JS_DupValue", &[Value::I32(self.context), Value::I64(value.0)])
    }

    /// Creates a string value. Returns an exception if the guest is out of memory.
    pub(super) fn string(&mut self, at: u32, bytes: u32) -> Result<JsValue, MachineError> {
        self.call_value("JS_NewStringLen", &[self.context, at, bytes].map(Value::I32))
    }

    pub(super) fn discard_exception(&mut self) -> Result<(), MachineError> {
        let thrown = self.exception()?;
        self.free(thrown)
    }

    /// Reads a `u32` from guest memory.
    pub(super) fn read_word(&mut self, at: u32) -> Result<u32, MachineError> {
        let mut bytes = [0; 4];
        self.machine.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads a `u64` from guest memory.
    pub(super) fn read_long(&mut self, at: u32) -> Result<u64, MachineError> {
        let mut bytes = [0; 8];
        self.machine.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes a `u32` to guest memory.
    pub(super) fn write_word(&mut self, at: u32, word: u32) -> Result<(), MachineError> {
        self.machine.write(at, &word.to_le_bytes())
    }

    /// Writes `text` with a terminating zero to guest memory.
    pub(super) fn write_text(&mut self, at: u32, text: &[u8]) -> Result<(), MachineError> {
        self.machine.write(at, text)?;
        let length = u32::try_from(text.len()).map_err(|_| MachineError::OutOfBounds(at))?;
        let end = at.checked_add(length).ok_or(MachineError::OutOfBounds(at))?;
        self.machine.write(end, &[0])
    }

    /// Enables or disables the loading of modules from files.
    pub(super) fn load_modules(&mut self, on: bool) -> Result<(), MachineError> {
        let slots = self.build.module_loader;
        let mut args = vec![Value::I32(self.runtime), Value::I32(0)];
        args.extend(slots.iter().map(|slot| Value::I32(if on { *slot } else { 0 })));
        args.push(Value::I32(0));
        self.call(self.build.set_module_loader, &args)
    }

    /// Removes a rejection from the interpreter's list of unhandled rejections.
    pub(super) fn mark_handled(&mut self, promise: JsValue, reason: JsValue) -> Result<(), MachineError> {
        let args =
            [Value::I32(self.context), Value::I64(promise.0), Value::I64(reason.0), Value::I32(1), Value::I32(0)];
        self.machine.call(Callee::Table(self.build.rejection_tracker), &args).map(drop)
    }

    /// Calls `fflush(NULL)`, which writes all of the script's output buffers, including those of unclosed files.
    pub(super) fn flush(&mut self) -> Result<(), DriverError> {
        Ok(self.call("fflush", &[Value::I32(0)])?)
    }
}

/// A `JSValue`: the tag in the upper half, and a pointer or a small number in the lower half (`quickjs.h`,
/// `JS_NAN_BOXING`).
///
/// Dropping a `JsValue` releases no reference. The owner of a value frees it with `Guest::free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsValue(pub(super) u64);

const TAG_OBJECT: u64 = 0xffff_ffff;
const TAG_MODULE: u64 = 0xffff_fffd;
const TAG_BOOL: u64 = 1;
const TAG_NULL: u64 = 2;
const TAG_UNDEFINED: u64 = 3;
const TAG_UNINITIALIZED: u64 = 4;
const TAG_EXCEPTION: u64 = 6;

impl JsValue {
    pub(super) const UNDEFINED: Self = Self(TAG_UNDEFINED << 32);

    pub(super) const TRUE: Self = Self((TAG_BOOL << 32) | 1);

    /// Returns the object at an address, as a value.
    pub(super) fn object(at: u32) -> Self {
        Self((TAG_OBJECT << 32) | u64::from(at))
    }

    /// Returns a small integer, as a value.
    pub(super) fn int(number: u32) -> Self {
        Self(u64::from(number))
    }

    /// Returns the lower half, which contains the bits of a small integer.
    pub(super) fn small(self) -> u32 {
        u32::try_from(self.0 & 0xffff_ffff).unwrap_or_default()
    }

    /// Returns `true` if the value is the result of a call that threw. The exception itself is pending in the runtime.
    pub(super) fn is_exception(self) -> bool {
        self.0 >> 32 == TAG_EXCEPTION
    }

    pub(super) fn is_null(self) -> bool {
        self.0 >> 32 == TAG_NULL
    }

    pub(super) fn is_undefined(self) -> bool {
        self.0 >> 32 == TAG_UNDEFINED
    }

    /// Returns `true` if the value stands for an uninitialized binding. Scripts never see such a value.
    pub(super) fn is_uninitialized(self) -> bool {
        self.0 >> 32 == TAG_UNINITIALIZED
    }

    /// Returns an object's address; `None` for any other value.
    pub(super) fn address(self) -> Option<u32> {
        self.pointer(TAG_OBJECT)
    }

    /// Returns the address of a compiled module; `None` for any other value.
    pub(super) fn module(self) -> Option<u32> {
        self.pointer(TAG_MODULE)
    }

    fn pointer(self, tag: u64) -> Option<u32> {
        if self.0 >> 32 == tag { u32::try_from(self.0 & 0xffff_ffff).ok() } else { None }
    }
}

// The states of a promise (`JSPromiseStateEnum`).
pub(super) const PROMISE_PENDING: u32 = 0;
pub(super) const PROMISE_FULFILLED: u32 = 1;
pub(super) const PROMISE_REJECTED: u32 = 2;
