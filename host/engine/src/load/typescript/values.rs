//! The subset of JavaScript values that one call to the stripper needs.

use std::collections::BTreeMap;

use glovebox_core::MemoryLimiter;
use glovebox_wasi::Stop;
use wasmtime::{Caller, Extern, Linker, Memory, Module, TypedFunc};

use crate::{
    exec::platform::ExecutionCtx,
    guest::{
        fuel::{Fuel, MeteredData},
        recycled::{GuestLimiter, UnwindError},
    },
};

/// Maximum number of values in one call to the stripper. A call needs about fifty.
const MAX_VALUES: usize = 1_000;

/// The allowance for text in addition to the source, in bytes: property names and a message.
const TEXT_BYTES: usize = 64 << 10;

/// Maximum number of copies of the source that can be passed in and out. The stripper reads the source once. It returns
/// one copy as code, or two in an error (an excerpt and its underlined form). The rest is a margin.
const SOURCES: usize = 8;

/// A JavaScript value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Object(BTreeMap<String, Value>),
}

impl Value {
    fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    /// Implements JavaScript's `!value`.
    pub(super) fn is_falsy(&self) -> bool {
        match self {
            Self::Undefined | Self::Null => true,
            Self::Bool(is_true) => !is_true,
            Self::Number(number) => *number == 0.0 || number.is_nan(),
            Self::Text(text) => text.is_empty(),
            Self::Object(_) => false,
        }
    }

    /// Implements `==` for primitive values of the same type and for `null` and `undefined`. The stripper makes no
    /// other comparisons.
    pub(super) fn loosely_equals(&self, other: &Self) -> bool {
        self == other || (self.is_nullish() && other.is_nullish())
    }

    /// Returns a property, or `undefined` for a missing property or a value that is not an object.
    pub(super) fn property(&self, name: &str) -> Self {
        match self {
            Self::Object(properties) => properties.get(name).cloned().unwrap_or(Self::Undefined),
            _ => Self::Undefined,
        }
    }

    /// Returns the text of a string, or `None` for other values.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a number as a 32-bit unsigned integer, or `None` if the value is not a number or the conversion is
    /// inexact.
    pub(super) fn count(&self) -> Option<u32> {
        match self {
            Self::Number(number) if (0.0..=f64::from(u32::MAX)).contains(number) && number.fract() == 0.0 => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range and whole")]
                let count = *number as u32;
                Some(count)
            }
            _ => None,
        }
    }
}

/// An invalid call to one of the stripper's imports, which stops the stripper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidCall {
    #[error("the TypeScript stripper used an invalid or dropped handle")]
    Handle,
    #[error("the TypeScript stripper created more than {MAX_VALUES} values")]
    Values,
    #[error("the TypeScript stripper exceeded the text limit")]
    Text,
    #[error("the TypeScript stripper passed text that is not UTF-8 or is outside its memory")]
    Memory,
    #[error("the TypeScript stripper accessed an unnamed property, or a property of a value that is not an object")]
    Property,
}

/// A table of values, indexed by handle.
///
/// wasm-bindgen reserves the handles below [`Values::FIRST`]. Other handles are assigned in ascending order and never
/// reused.
#[derive(Debug)]
pub(super) struct Values {
    values: Vec<Option<Value>>,
    text_bytes_left: usize,
}

impl Values {
    /// The first handle that is assigned. Smaller handles are 128 reserved slots of the glue, then `undefined`, `null`,
    /// `true` and `false`.
    const FIRST: usize = 132;

    /// Creates an empty table for a source of `source_bytes`.
    pub(super) fn new(source_bytes: usize) -> Self {
        let text_bytes_left = source_bytes.saturating_mul(SOURCES).saturating_add(TEXT_BYTES);
        Self { values: Vec::new(), text_bytes_left }
    }

    /// Adds a value and returns its handle.
    pub(super) fn add(&mut self, value: Value) -> Result<u32, InvalidCall> {
        if self.values.len() >= MAX_VALUES {
            return Err(InvalidCall::Values);
        }
        self.values.push(Some(value));
        u32::try_from(Self::FIRST + self.values.len() - 1).map_err(|_| InvalidCall::Values)
    }

    pub(super) fn get(&self, handle: u32) -> Result<&Value, InvalidCall> {
        const UNDEFINED: &Value = &Value::Undefined;
        const NULL: &Value = &Value::Null;
        const TRUE: &Value = &Value::Bool(true);
        const FALSE: &Value = &Value::Bool(false);
        match handle {
            128 => Ok(UNDEFINED),
            129 => Ok(NULL),
            130 => Ok(TRUE),
            131 => Ok(FALSE),
            _ => {
                let at = usize::try_from(handle).ok().and_then(|handle| handle.checked_sub(Self::FIRST));
                at.and_then(|at| self.values.get(at)?.as_ref()).ok_or(InvalidCall::Handle)
            }
        }
    }

    /// Drops a handle and returns its value. Reserved handles stay valid.
    pub(super) fn take(&mut self, handle: u32) -> Result<Value, InvalidCall> {
        match self.place(handle) {
            Some(place) => place.take().ok_or(InvalidCall::Handle),
            None => self.get(handle).cloned(),
        }
    }

    /// Sets a property of an object.
    pub(super) fn set(&mut self, handle: u32, name: Value, value: Value) -> Result<(), InvalidCall> {
        match (self.place(handle), name) {
            (Some(Some(Value::Object(properties))), Value::Text(name)) => {
                properties.insert(name, value);
                Ok(())
            }
            _ => Err(InvalidCall::Property),
        }
    }

    fn place(&mut self, handle: u32) -> Option<&mut Option<Value>> {
        let at = usize::try_from(handle).ok()?.checked_sub(Self::FIRST)?;
        self.values.get_mut(at)
    }

    /// Charges text that is passed in or out. Fails if the text limit is exceeded.
    pub(super) fn pass(&mut self, bytes: usize) -> Result<(), InvalidCall> {
        self.text_bytes_left = self.text_bytes_left.checked_sub(bytes).ok_or(InvalidCall::Text)?;
        Ok(())
    }
}

// The subset of wasm-bindgen's JavaScript glue that one call to the stripper needs, in Rust. All other imports of the
// stripper (promises, typed arrays, iterators) trap.

/// The module name of wasm-bindgen's imports.
const PLACEHOLDER: &str = "__wbindgen_placeholder__";

/// The export name of `malloc(bytes, align)`.
const MALLOC: &str = "__wbindgen_export_2";

/// The host state of one call to the stripper.
pub(super) struct Glue {
    pub(super) values: Values,
    pub(super) limiter: GuestLimiter,
    fuel: Fuel,
    pub(super) ctx: ExecutionCtx,
}

impl Glue {
    pub(super) fn new(source_bytes: usize, memory_limit_bytes: u64, fuel: Fuel, ctx: ExecutionCtx) -> Self {
        let limiter = GuestLimiter::new(MemoryLimiter::new(memory_limit_bytes, 0));
        Self { values: Values::new(source_bytes), limiter, fuel, ctx }
    }

    /// Fails if the call was cancelled or its time limit has expired.
    pub(super) fn check(&self) -> wasmtime::Result<()> {
        self.ctx.check().map_err(|stop| wasmtime::Error::new(UnwindError(stop)))
    }
}

impl MeteredData for Glue {
    fn fuel(&mut self) -> &mut Fuel {
        &mut self.fuel
    }

    fn check(caller: &mut Caller<'_, Self>, _left: u64) -> Result<(), Stop> {
        caller.data().ctx.check()
    }
}

type Stripper<'a> = Caller<'a, Glue>;

fn memory(caller: &mut Stripper<'_>) -> Result<Memory, InvalidCall> {
    caller.get_export("memory").and_then(Extern::into_memory).ok_or(InvalidCall::Memory)
}

/// Reads text from the stripper's memory.
fn text(caller: &mut Stripper<'_>, at: u32, bytes: u32) -> Result<String, InvalidCall> {
    let memory = memory(caller)?;
    let (memory, glue) = memory.data_and_store_mut(caller);
    let (at, bytes) = (at as usize, bytes as usize);
    glue.values.pass(bytes)?;
    let text = memory.get(at..at.saturating_add(bytes)).ok_or(InvalidCall::Memory)?;
    String::from_utf8(text.to_vec()).map_err(|_| InvalidCall::Memory)
}

/// Writes two 32-bit words. Fails if they are outside the stripper's memory.
fn write_words(caller: &mut Stripper<'_>, at: u32, words: [u32; 2]) -> wasmtime::Result<()> {
    let memory = memory(caller)?;
    let [first, second] = words.map(u32::to_le_bytes);
    memory.write(&mut *caller, at as usize, &first)?;
    memory.write(caller, (at as usize).saturating_add(4), &second)?;
    Ok(())
}

/// Copies a string into the stripper's memory, and writes its address and length at `ret`. Writes zeros for other
/// values.
fn string_get(mut caller: Stripper<'_>, ret: u32, handle: u32) -> wasmtime::Result<()> {
    let Some(text) = caller.data().values.get(handle)?.text().map(str::to_owned) else {
        return write_words(&mut caller, ret, [0, 0]);
    };
    caller.data_mut().values.pass(text.len())?;
    let bytes = u32::try_from(text.len()).map_err(|_| InvalidCall::Text)?;
    let malloc = caller.get_export(MALLOC).and_then(Extern::into_func).ok_or(InvalidCall::Memory)?;
    let malloc: TypedFunc<(u32, u32), u32> = malloc.typed(&caller)?;
    let at = malloc.call(&mut caller, (bytes, 1))?;
    memory(&mut caller)?.write(&mut caller, at as usize, text.as_bytes())?;
    write_words(&mut caller, ret, [at, bytes])
}

/// Defines the stripper's imports.
pub(super) fn define_glue(linker: &mut Linker<Glue>, module: &Module) -> wasmtime::Result<()> {
    type Check = fn(&Value) -> bool;
    // Defines an import that only uses the table of values.
    macro_rules! define {
        ($name:expr, |$values:ident $(, $arg:ident: $ty:ty)*| -> $ret:ty $body:block) => {
            linker.func_wrap(
                PLACEHOLDER,
                $name,
                move |mut caller: Stripper<'_> $(, $arg: $ty)*| -> wasmtime::Result<$ret> {
                    let $values = &mut caller.data_mut().values;
                    Ok($body)
                },
            )?
        };
    }
    let checks: [(&str, Check); 4] = [
        ("__wbindgen_is_falsy", Value::is_falsy),
        ("__wbindgen_is_undefined", |value| *value == Value::Undefined),
        ("__wbindgen_is_string", |value| matches!(value, Value::Text(_))),
        ("__wbindgen_is_object", |value| matches!(value, Value::Object(_))),
    ];
    for (name, holds) in checks {
        define!(name, |values, handle: u32| -> u32 { u32::from(holds(values.get(handle)?)) });
    }
    define!("__wbindgen_boolean_get", |values, handle: u32| -> u32 {
        match values.get(handle)? {
            Value::Bool(is_true) => u32::from(*is_true),
            _ => 2,
        }
    });
    define!("__wbindgen_jsval_loose_eq", |values, one: u32, other: u32| -> u32 {
        u32::from(values.get(one)?.loosely_equals(values.get(other)?))
    });
    define!("__wbindgen_in", |values, name: u32, object: u32| -> u32 {
        let name = values.get(name)?.text().ok_or(InvalidCall::Property)?;
        let has = matches!(values.get(object)?, Value::Object(properties) if properties.contains_key(name));
        u32::from(has)
    });
    define!("__wbg_getwithrefkey_1dc361bd10053bfe", |values, object: u32, name: u32| -> u32 {
        let property = values.get(object)?.property(values.get(name)?.text().ok_or(InvalidCall::Property)?);
        values.add(property)?
    });
    define!("__wbg_set_3f1d0b984ed272ed", |values, object: u32, name: u32, value: u32| -> () {
        let (name, value) = (values.take(name)?, values.take(value)?);
        values.set(object, name, value)?
    });
    define!("__wbg_new_405e22f390576ce2", |values| -> u32 { values.add(Value::Object(BTreeMap::new()))? });
    define!("__wbindgen_number_new", |values, number: f64| -> u32 { values.add(Value::Number(number))? });
    define!("__wbindgen_object_clone_ref", |values, handle: u32| -> u32 {
        let value = values.get(handle)?.clone();
        // The clone is a copy, so its text is charged again. The stripper clones only property names, which are short.
        values.pass(value.text().map_or(0, str::len))?;
        values.add(value)?
    });
    define!("__wbindgen_object_drop_ref", |values, handle: u32| -> () { drop(values.take(handle)?) });
    // Both imports create text: an error is represented by its message, because nothing else in the error is read.
    for name in ["__wbindgen_string_new", "__wbindgen_error_new"] {
        let make = |mut caller: Stripper<'_>, at: u32, bytes: u32| -> wasmtime::Result<u32> {
            let text = text(&mut caller, at, bytes)?;
            Ok(caller.data_mut().values.add(Value::Text(text))?)
        };
        linker.func_wrap(PLACEHOLDER, name, make)?;
    }
    linker.func_wrap(PLACEHOLDER, "__wbindgen_string_get", string_get)?;
    linker.define_unknown_imports_as_traps(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_is_valid_until_dropped() {
        let mut values = Values::new(0);
        let first = values.add(Value::Number(1.0)).unwrap();
        let second = values.add(Value::Text("x".into())).unwrap();
        assert_eq!((first, second), (132, 133));
        assert_eq!(values.take(first), Ok(Value::Number(1.0)));
        assert_eq!(values.get(first), Err(InvalidCall::Handle), "dropped");
        assert_eq!(values.get(second), Ok(&Value::Text("x".into())));
        for never in [0, 127, 134, u32::MAX] {
            assert_eq!(values.get(never), Err(InvalidCall::Handle), "{never}");
            assert_eq!(values.take(never), Err(InvalidCall::Handle), "{never}");
        }
    }

    #[test]
    fn constant_handles_are_never_dropped() {
        let mut values = Values::new(0);
        let known = [(128, Value::Undefined), (129, Value::Null), (130, Value::Bool(true)), (131, Value::Bool(false))];
        for (handle, value) in known {
            assert_eq!(values.take(handle).as_ref(), Ok(&value));
            assert_eq!(values.get(handle), Ok(&value));
            assert_eq!(values.set(handle, Value::Text("x".into()), Value::Null), Err(InvalidCall::Property));
        }
    }

    #[test]
    fn number_of_values_and_text_is_limited() {
        let mut values = Values::new(0);
        for _ in 0..MAX_VALUES {
            let handle = values.add(Value::Null).unwrap();
            values.take(handle).unwrap();
        }
        assert_eq!(values.add(Value::Null), Err(InvalidCall::Values), "dropped values still count");
        for (source, fits) in [(0, TEXT_BYTES), (10, TEXT_BYTES + 80)] {
            let mut values = Values::new(source);
            assert_eq!(values.pass(fits - 1), Ok(()), "under");
            assert_eq!(values.pass(1), Ok(()), "at");
            assert_eq!(values.pass(1), Err(InvalidCall::Text), "over");
        }
    }

    #[test]
    fn only_objects_have_properties() {
        let mut values = Values::new(0);
        let object = values.add(Value::Object(BTreeMap::new())).unwrap();
        values.set(object, Value::Text("a".into()), Value::Number(2.0)).unwrap();
        assert_eq!(values.get(object).unwrap().property("a"), Value::Number(2.0));
        assert_eq!(values.get(object).unwrap().property("b"), Value::Undefined);
        assert_eq!(values.set(object, Value::Null, Value::Null), Err(InvalidCall::Property), "no name");
        let text = values.add(Value::Text("a".into())).unwrap();
        assert_eq!(values.set(text, Value::Text("a".into()), Value::Null), Err(InvalidCall::Property));
        assert_eq!(values.get(text).unwrap().property("a"), Value::Undefined);
    }

    #[test]
    fn comparison_and_truthiness_follow_javascript() {
        assert!(Value::Undefined.loosely_equals(&Value::Null) && !Value::Null.loosely_equals(&Value::Bool(false)));
        assert!(Value::Text("a".into()).loosely_equals(&Value::Text("a".into())));
        let empty = || Value::Text(String::new());
        let falsy = [Value::Undefined, Value::Null, Value::Bool(false), Value::Number(f64::NAN), empty()];
        assert!(falsy.iter().all(Value::is_falsy));
        let truthy = [Value::Bool(true), Value::Number(-1.0), Value::Text("0".into()), Value::Object(BTreeMap::new())];
        assert!(!truthy.iter().any(Value::is_falsy));
        for (number, count) in
            [(0.0, Some(0)), (7.0, Some(7)), (-1.0, None), (1.5, None), (1e10, None), (f64::NAN, None)]
        {
            assert_eq!(Value::Number(number).count(), count, "{number}");
        }
    }
}
