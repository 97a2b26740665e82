//! The subset of wasm-bindgen's JavaScript glue that one call of the stripper needs, in Rust.
//!
//! All other imports of the stripper (promises, typed arrays, iterators) trap.

use std::collections::BTreeMap;

use glovebox_core::MemoryLimiter;
use wasmtime::{Caller, Extern, Linker, Memory, Module, TypedFunc};

use crate::{
    exec::platform::ExecutionCtx,
    guest::state::{GuestLimiter, Unwound},
};

use super::values::{Misuse, Value, Values};

/// Module name of wasm-bindgen's imports.
const PLACEHOLDER: &str = "__wbindgen_placeholder__";

/// `malloc(bytes, align)`.
const MALLOC: &str = "__wbindgen_export_2";

/// State of a call of the stripper outside its WebAssembly instance.
pub(super) struct Glue {
    pub(super) values: Values,
    pub(super) limiter: GuestLimiter,
    pub(super) ctx: ExecutionCtx,
}

impl Glue {
    pub(super) fn new(source_bytes: usize, memory_limit_bytes: u64, ctx: ExecutionCtx) -> Self {
        let limiter = GuestLimiter::new(MemoryLimiter::new(memory_limit_bytes, 0));
        Self { values: Values::new(source_bytes), limiter, ctx }
    }

    /// Fails if the call was cancelled, or its time is up.
    pub(super) fn check(&self) -> wasmtime::Result<()> {
        self.ctx.check().map_err(|stop| wasmtime::Error::new(Unwound(stop)))
    }
}

type Stripper<'a> = Caller<'a, Glue>;

fn memory(caller: &mut Stripper<'_>) -> Result<Memory, Misuse> {
    caller.get_export("memory").and_then(Extern::into_memory).ok_or(Misuse::Memory)
}

/// Reads a text from the stripper's memory.
fn text(caller: &mut Stripper<'_>, at: u32, bytes: u32) -> Result<String, Misuse> {
    let memory = memory(caller)?;
    let (memory, glue) = memory.data_and_store_mut(caller);
    let (at, bytes) = (at as usize, bytes as usize);
    glue.values.pass(bytes)?;
    let text = memory.get(at..at.saturating_add(bytes)).ok_or(Misuse::Memory)?;
    String::from_utf8(text.to_vec()).map_err(|_| Misuse::Memory)
}

/// Writes two words. Fails if they are outside the stripper's memory.
fn write_words(caller: &mut Stripper<'_>, at: u32, words: [u32; 2]) -> wasmtime::Result<()> {
    let memory = memory(caller)?;
    let [first, second] = words.map(u32::to_le_bytes);
    memory.write(&mut *caller, at as usize, &first)?;
    memory.write(caller, (at as usize).saturating_add(4), &second)?;
    Ok(())
}

/// Copies a text into the stripper's memory, and writes its address and length at `ret`. For other values the address
/// is 0.
fn string_get(mut caller: Stripper<'_>, ret: u32, handle: u32) -> wasmtime::Result<()> {
    let Some(text) = caller.data().values.get(handle)?.text().map(str::to_owned) else {
        return write_words(&mut caller, ret, [0, 0]);
    };
    caller.data_mut().values.pass(text.len())?;
    let bytes = u32::try_from(text.len()).map_err(|_| Misuse::Text)?;
    let malloc = caller.get_export(MALLOC).and_then(Extern::into_func).ok_or(Misuse::Memory)?;
    let malloc: TypedFunc<(u32, u32), u32> = malloc.typed(&caller)?;
    let at = malloc.call(&mut caller, (bytes, 1))?;
    memory(&mut caller)?.write(&mut caller, at as usize, text.as_bytes())?;
    write_words(&mut caller, ret, [at, bytes])
}

/// Defines the stripper's imports.
pub(super) fn define(linker: &mut Linker<Glue>, module: &Module) -> wasmtime::Result<()> {
    fn is(linker: &mut Linker<Glue>, name: &str, holds: fn(&Value) -> bool) -> wasmtime::Result<()> {
        let call = move |caller: Stripper<'_>, handle: u32| -> wasmtime::Result<u32> {
            Ok(u32::from(holds(caller.data().values.get(handle)?)))
        };
        linker.func_wrap(PLACEHOLDER, name, call).map(drop)
    }
    is(linker, "__wbindgen_is_falsy", Value::is_falsy)?;
    is(linker, "__wbindgen_is_undefined", |value| *value == Value::Undefined)?;
    is(linker, "__wbindgen_is_string", |value| matches!(value, Value::Text(_)))?;
    is(linker, "__wbindgen_is_object", |value| matches!(value, Value::Object(_)))?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_boolean_get",
        |caller: Stripper<'_>, handle: u32| -> wasmtime::Result<u32> {
            Ok(match caller.data().values.get(handle)? {
                Value::Bool(is_true) => u32::from(*is_true),
                _ => 2,
            })
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_jsval_loose_eq",
        |caller: Stripper<'_>, one: u32, other: u32| -> wasmtime::Result<u32> {
            let values = &caller.data().values;
            Ok(u32::from(values.get(one)?.loosely_equals(values.get(other)?)))
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_in",
        |caller: Stripper<'_>, name: u32, object: u32| -> wasmtime::Result<u32> {
            let values = &caller.data().values;
            let name = values.get(name)?.text().ok_or(Misuse::Property)?;
            let has = matches!(values.get(object)?, Value::Object(properties) if properties.contains_key(name));
            Ok(u32::from(has))
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbg_getwithrefkey_1dc361bd10053bfe",
        |mut caller: Stripper<'_>, object: u32, name: u32| -> wasmtime::Result<u32> {
            let values = &mut caller.data_mut().values;
            let property = values.get(object)?.property(values.get(name)?.text().ok_or(Misuse::Property)?);
            Ok(values.add(property)?)
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbg_set_3f1d0b984ed272ed",
        |mut caller: Stripper<'_>, object: u32, name: u32, value: u32| -> wasmtime::Result<()> {
            let values = &mut caller.data_mut().values;
            let (name, value) = (values.take(name)?, values.take(value)?);
            Ok(values.set(object, name, value)?)
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbg_new_405e22f390576ce2",
        |mut caller: Stripper<'_>| -> wasmtime::Result<u32> {
            Ok(caller.data_mut().values.add(Value::Object(BTreeMap::new()))?)
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_number_new",
        |mut caller: Stripper<'_>, number: f64| -> wasmtime::Result<u32> {
            Ok(caller.data_mut().values.add(Value::Number(number))?)
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_object_clone_ref",
        |mut caller: Stripper<'_>, handle: u32| -> wasmtime::Result<u32> {
            let values = &mut caller.data_mut().values;
            let value = values.get(handle)?.clone();
            // If the stripper clones a text, it is the name of a property.
            values.pass(value.text().map_or(0, str::len))?;
            Ok(values.add(value)?)
        },
    )?;
    linker.func_wrap(
        PLACEHOLDER,
        "__wbindgen_object_drop_ref",
        |mut caller: Stripper<'_>, handle: u32| -> wasmtime::Result<()> {
            caller.data_mut().values.take(handle)?;
            Ok(())
        },
    )?;
    // Both create a text: no code reads any other property of an error.
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
