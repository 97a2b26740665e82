//! Generated functions between the guests' code and the shim's: they turn some of the shim's results into an unwind.

use std::collections::BTreeMap;

use wasm_encoder::{BlockType, Function, ValType};
use wasmparser::FuncType;

use crate::{
    WeaveError,
    body::Depth,
    guest::{Read, is_host_call},
    module::Module,
    plan::{Plan, Reason},
};

/// Prefix of the shim's exports that implement WASI preview 1.
pub(crate) const WASI_PREFIX: &str = "glovebox:wasi/";

/// Further exports of the shim that the guests' code calls.
pub(crate) const REFUEL: &str = "glovebox:machine/refuel";
pub(crate) const GROW: &str = "glovebox:machine/grow";

/// Prefix of these exports.
pub(crate) const MACHINE_PREFIX: &str = "glovebox:machine/";

/// A WASI function that a guest imports.
pub(crate) struct Wanted<'a> {
    pub(crate) of: &'a FuncType,
    /// Index of the shim's function.
    pub(crate) shim: u32,
}

/// Returns the WASI functions that the guests import, by name. Each is resolved once.
pub(crate) fn wanted<'a>(
    guests: &'a [Read<'_>],
    shim: &Module<'_>,
) -> Result<BTreeMap<&'a str, Wanted<'a>>, WeaveError> {
    let mut wanted: BTreeMap<&str, Wanted<'_>> = BTreeMap::new();
    for guest in guests {
        for (number, import) in (0u32..).zip(&guest.module.imports).filter(|(_, import)| !is_host_call(import)) {
            let name = import.name;
            let Some(of) = guest.module.function_type(number) else { continue };
            let other = || WeaveError::unsupported(guest.guest.name, format!("it imports `{name}` with another type"));
            if let Some(known) = wanted.get(name) {
                if known.of != of {
                    return Err(other());
                }
                continue;
            }
            let shim_function = exported(shim, &format!("{WASI_PREFIX}{name}"))?;
            let shim_type = shim.function_type(shim_function);
            let fits = shim_type.is_some_and(|shim| {
                let is_answered = of.results() == shim.results() || of.results().is_empty();
                shim.params() == of.params() && shim.results() == [wasmparser::ValType::I32] && is_answered
            });
            if !fits {
                return Err(other());
            }
            wanted.insert(name, Wanted { of, shim: shim_function });
        }
    }
    Ok(wanted)
}

/// Returns the type of the guests' host calls, which must be the same in all guests and return an `i32`. `None` if no
/// guest has any.
pub(crate) fn host_call<'a>(guests: &'a [Read<'_>]) -> Result<Option<&'a FuncType>, WeaveError> {
    let mut wanted = None;
    for guest in guests {
        for (number, _) in (0u32..).zip(&guest.module.imports).filter(|(_, import)| is_host_call(import)) {
            let of = guest.module.function_type(number).filter(|of| of.results() == [wasmparser::ValType::I32]);
            let fits = of.is_some() && wanted.is_none_or(|known| Some(known) == of);
            wanted = of.filter(|_| fits);
            if wanted.is_none() {
                return Err(WeaveError::unsupported(guest.guest.name, "it imports `host` `call` with another type"));
            }
        }
    }
    Ok(wanted)
}

/// Generates a function that reports the absence of a host with -1.
pub(crate) fn no_host() -> Function {
    let mut function = Function::new([]);
    function.instructions().i32_const(-1).end();
    function
}

/// Returns the index of a function that the shim exports.
pub(crate) fn exported(shim: &Module<'_>, name: &str) -> Result<u32, WeaveError> {
    let found =
        shim.exports.iter().find(|export| export.name == name && matches!(export.kind, wasmparser::ExternalKind::Func));
    found.map(|export| export.index).ok_or_else(|| WeaveError::Shim(format!("it exports no function `{name}`")))
}

/// Generates a call of the shim that unwinds if the result is not an errno. Functions without a result, such as
/// `proc_exit`, always unwind.
pub(crate) fn wasi(of: &FuncType, shim: u32, unwind: u32) -> Function {
    let parameters = crate::module::count(of.params());
    let mut function = Function::new([(1, ValType::I32)]);
    let mut code = function.instructions();
    for parameter in 0..parameters {
        code.local_get(parameter);
    }
    code.call(shim);
    if of.results().is_empty() {
        code.drop().call(unwind).unreachable().end();
        return function;
    }
    let answer = parameters;
    code.local_tee(answer).i32_const(0).i32_lt_s().if_(BlockType::Empty).call(unwind).end();
    code.local_get(answer).end();
    function
}

/// Generates a function that stores the reason and throws the unwinding exception.
pub(crate) fn unwind(plan: &Plan<'_>, reason: Reason) -> Function {
    let mut function = Function::new([]);
    function.instructions().i32_const(reason as i32).global_set(plan.reason).throw(plan.tag).end();
    function
}

/// Generates the function to call when a counter is negative. It unwinds if calls are too deep. Otherwise the fuel
/// counter, its parameter, is used up: it asks the shim for more fuel and returns the new counter, or unwinds.
pub(crate) fn halt(fuel: u32, depth: Option<Depth>, refuel: u32, unwind: u32) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    if let Some(Depth { global, overflow }) = depth {
        code.global_get(global).i64_const(0).i64_lt_s().if_(BlockType::Empty).call(overflow).end();
    }
    code.local_get(0).global_set(fuel);
    code.call(refuel).if_(BlockType::Empty).call(unwind).end();
    code.global_get(fuel).end();
    function
}
