//! Guests, read from their prepared modules.

use std::collections::BTreeMap;

use glovebox_runtimes::{Digest, rewrite::MutableGlobal};
use wasmparser::{ExternalKind, FuncType, Import, Operator, TypeRef, ValType};

use crate::{
    GuestLibrary, WeaveError,
    depth::{Depths, depths},
    image::{Image, Slots, slots},
    module::{Module, index},
};

const WASI: &str = "wasi_snapshot_preview1";

/// A further import that guests may have: CPython 3.15 was built with a call to its host. The provider answers that
/// there is no host, as the engine does.
const HOST_CALL: (&str, &str) = ("host", "call");

/// Export name of the table whose functions can be called by slot.
const TABLE: &str = "__table";

/// A prepared interpreter.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// Name of the runtime.
    pub name: &'a str,
    /// Further names of the runtime.
    pub aliases: &'a [String],
    /// `python` or `javascript`.
    pub language: &'a str,
    /// The driver, as recipes name it.
    pub driver: &'a str,
    /// The interpreter's version.
    pub version: &'a str,
    /// The prepared module, as [`with_image`](glovebox_runtimes::rewrite::with_image) returns it.
    pub module: &'a [u8],
    /// Digest of the prepared module, which identifies the image.
    pub image_sha256: Digest,
    /// Addresses in the image that the driver needs, by name.
    pub anchors: &'a BTreeMap<String, u32>,
    /// All mutable globals. Weaving fails if one is missing: its value would leak from one session into the next.
    pub globals: &'a [MutableGlobal],
    /// Names of the exported functions that the driver calls.
    pub exports: &'a [String],
    /// The standard library, if it is a separate file.
    pub library: Option<GuestLibrary<'a>>,
}

/// A parsed guest.
pub(crate) struct Read<'a> {
    pub(crate) guest: &'a Guest<'a>,
    pub(crate) module: Module<'a>,
    pub(crate) depths: Depths,
    /// Size of the image in pages of 64 KiB.
    pub(crate) memory_pages: u32,
    pub(crate) image: Image,
    /// Indices of the functions that are called by name.
    pub(crate) exports: Vec<u32>,
    /// Mutable globals with the bits of their values in the image.
    pub(crate) globals: Vec<(MutableGlobal, u64)>,
    /// The table for calls by slot, if the guest has one: its index and the functions in its slots.
    pub(crate) table: Option<(u32, Slots)>,
}

impl<'a> Read<'a> {
    pub(crate) fn new(guest: &'a Guest<'a>) -> Result<Self, WeaveError> {
        let module = Module::read(guest.name, guest.module)?;
        let wrong = |what: &str| WeaveError::unsupported(guest.name, what);
        for import in &module.imports {
            let is_given = import.module == WASI || is_host_call(import);
            if !is_given || !matches!(import.ty, TypeRef::Func(_)) {
                let what =
                    format!("it imports `{}` `{}`, but only WASI preview 1 is available", import.module, import.name);
                return Err(WeaveError::unsupported(guest.name, what));
            }
        }
        if let Some(library) = &guest.library {
            library.check(guest.name)?;
        }
        if module.start.is_some() {
            return Err(wrong("it has a start function; only prepared modules can be woven"));
        }
        // An unknown global would leak a session's value into the next session.
        let is_known = |at: u32| guest.globals.iter().any(|global| global.index == at);
        if let Some((at, _)) = (0u32..).zip(&module.globals).find(|(at, global)| global.ty.mutable && !is_known(*at)) {
            return Err(wrong(&format!("its mutable global {at} is not saved")));
        }
        let [memory] = module.memories.as_slice() else { return Err(wrong("it does not have exactly one memory")) };
        let memory_pages = u32::try_from(memory.initial).map_err(|_| wrong("its memory is too large"))?;
        let image = Image::of(&module)?;
        Ok(Self {
            guest,
            memory_pages,
            image,
            exports: exported_functions(&module, guest.exports)?,
            globals: guest.globals.iter().map(|global| initial(&module, global)).collect::<Result<_, _>>()?,
            table: called_table(&module)?,
            depths: depths(&module, guest.module)?,
            module,
        })
    }
}

/// Returns `true` for CPython's call to a host that does not exist here.
pub(crate) fn is_host_call(import: &Import<'_>) -> bool {
    (import.module, import.name) == HOST_CALL
}

fn exported_functions(module: &Module<'_>, names: &[String]) -> Result<Vec<u32>, WeaveError> {
    let find = |name: &String| {
        let found = module.exports.iter().find(|export| export.kind == ExternalKind::Func && export.name == *name);
        let function = found.map(|export| export.index).ok_or_else(|| {
            WeaveError::unsupported(module.name, format!("it exports no function `{name}` for its driver"))
        })?;
        match module.function_type(function) {
            Some(of) if is_callable(of) => Ok(function),
            _ => Err(WeaveError::unsupported(
                module.name,
                format!("`{name}` has parameters or results that are not integers"),
            )),
        }
    };
    names.iter().map(find).collect()
}

/// Returns `true` if the shim can call functions of this type: integer parameters and at most one integer result.
pub(crate) fn is_callable(of: &FuncType) -> bool {
    let is_integer = |of: &ValType| matches!(of, ValType::I32 | ValType::I64);
    of.params().iter().chain(of.results()).all(is_integer) && of.results().len() <= 1
}

/// Returns the initial bits of a global.
fn initial(module: &Module<'_>, global: &MutableGlobal) -> Result<(MutableGlobal, u64), WeaveError> {
    let no_number = || {
        let what = format!("global {} (`{}`) has no constant initial value", global.index, global.export);
        WeaveError::unsupported(module.name, what)
    };
    let defined = module.globals.get(index(global.index)).ok_or_else(no_number)?;
    let mut reader = defined.init_expr.get_operators_reader();
    let first = reader.read().map_err(WeaveError::invalid(module.name))?;
    if !matches!(reader.read(), Ok(Operator::End)) {
        return Err(no_number());
    }
    let bits = match first {
        Operator::I32Const { value } => u64::from(value.cast_unsigned()),
        Operator::I64Const { value } => value.cast_unsigned(),
        Operator::F32Const { value } => u64::from(value.bits()),
        Operator::F64Const { value } => value.bits(),
        _ => return Err(no_number()),
    };
    Ok((global.clone(), bits))
}

/// Finds the table for calls by slot. Its slots never change: preparation rejects modules that modify tables.
fn called_table(module: &Module<'_>) -> Result<Option<(u32, Slots)>, WeaveError> {
    let found = module.exports.iter().find(|export| export.kind == ExternalKind::Table && export.name == TABLE);
    let Some(table) = found.map(|export| export.index) else { return Ok(None) };
    let mut slots = slots(module, table)?;
    for slot in &mut slots {
        *slot = slot.filter(|function| module.function_type(*function).is_some_and(is_callable));
    }
    Ok(Some((table, slots)))
}
