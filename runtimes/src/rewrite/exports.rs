//! Adds the exports through which a driver accesses a binary's internals.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wasm_encoder::ExportKind;
use wasmparser::{Name, ValType};

use super::{
    RewriteError, callbacks,
    framed::{self, Wrapper},
    numpy, quickjs,
    sections::{Changed, Exports, Sections},
};
use crate::{ExportList, FunctionId};

/// The name of the C stack pointer's global in recipes.
const STACK_POINTER: &str = "__stack_pointer";

/// The value type of a global that can be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GlobalKind {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
}

/// A mutable global, whose value is saved with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutableGlobal {
    /// The index of the global.
    pub index: u32,
    /// The export name.
    pub export: String,
    /// The type of the value.
    pub kind: GlobalKind,
}

/// A module that a driver can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootable {
    /// The module's binary.
    pub bytes: Vec<u8>,
    /// All mutable globals. Each of them is exported.
    pub globals: Vec<MutableGlobal>,
}

/// Exports the items in `list` and every mutable global, adds the callbacks, changes the listed functions, and removes
/// custom sections.
///
/// All existing exports are preserved. An item that is already exported under its name is not exported again.
pub fn with_exports(module: &[u8], list: &ExportList) -> Result<Bootable, RewriteError> {
    let widened = list.wide_integers.then(|| numpy::widen(module)).transpose()?;
    let located = list.call_sites.then(|| quickjs::locate_calls(module)).transpose()?;
    let module = widened.as_deref().or(located.as_deref()).unwrap_or(module);
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let mut exports = Exports::of(&sections)?;

    let wanted = list.functions.iter().filter(|name| !exports.has(name, ExportKind::Func));
    let wanted: BTreeSet<&str> = wanted.map(String::as_str).collect();
    let framed = list.framed.iter().map(String::as_str);
    let finder = list.path_finder.iter().filter_map(FunctionId::name);
    let found = function_indices(&sections, &wanted.iter().copied().chain(framed).chain(finder).collect())?;
    // Exports have the recipe's order, without duplicates.
    for name in list.functions.iter().filter(|name| wanted.contains(name.as_str())) {
        let index = *found.get(name.as_str()).ok_or_else(|| RewriteError::NoFunction(name.clone()))?;
        if index >= counts.functions {
            return Err(RewriteError::NoFunction(name.clone()));
        }
        exports.add(name, ExportKind::Func, index)?;
    }
    for (name, &index) in &list.indices {
        if index >= counts.functions {
            return Err(RewriteError::NoItem { kind: "function", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Func, index)?;
    }
    for (name, &index) in &list.globals {
        if index >= counts.globals {
            return Err(RewriteError::NoItem { kind: "global", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Global, index)?;
    }
    for (name, &index) in &list.tables {
        if index >= counts.tables {
            return Err(RewriteError::NoItem { kind: "table", index, name: name.clone() });
        }
        exports.add(name, ExportKind::Table, index)?;
    }

    if let Some(last) = counts.globals.checked_sub(1).filter(|_| list.call_sites) {
        exports.add(quickjs::NAMER, ExportKind::Global, last)?;
    }
    let globals = export_mutable_globals(&sections, &mut exports)?;
    let mut changed = callbacks::add(&sections, &list.callbacks, &mut exports)?;
    changed.push(Changed::to(exports.section()));
    let mut bytes = sections.rebuild(changed);
    let wrappers = wrappers(list, &found)?;
    if !wrappers.is_empty() {
        bytes = framed::wrap(&bytes, &wrappers)?;
    }
    Ok(Bootable { bytes, globals })
}

/// Returns the functions to wrap. `found` contains the indices of the listed functions.
fn wrappers(list: &ExportList, found: &BTreeMap<String, u32>) -> Result<BTreeMap<u32, Wrapper>, RewriteError> {
    let index = |name: &String| found.get(name).copied().ok_or_else(|| RewriteError::NoFunction(name.clone()));
    let mut wrappers = BTreeMap::new();
    for name in &list.framed {
        let stack_pointer = list
            .globals
            .get(STACK_POINTER)
            .ok_or_else(|| RewriteError::Unsupported(format!("no global is named `{STACK_POINTER}`")))?;
        wrappers.insert(index(name)?, Wrapper::Frame { stack_pointer: *stack_pointer });
    }
    if let Some(finder) = &list.path_finder {
        let index = match finder {
            FunctionId::Name(name) => index(name)?,
            FunctionId::Index(index) => *index,
        };
        wrappers.insert(index, Wrapper::EmptyPath);
    }
    Ok(wrappers)
}

fn export_mutable_globals(sections: &Sections<'_>, exports: &mut Exports) -> Result<Vec<MutableGlobal>, RewriteError> {
    let imported = sections.counts()?.imported_globals;
    let mut saved = Vec::new();
    for (index, global) in (0u32..).zip(sections.globals()?) {
        if !global.mutable {
            continue;
        }
        if index < imported {
            return Err(RewriteError::Unsupported(format!("it imports the mutable global {index}")));
        }
        let kind = match global.content_type {
            ValType::I32 => GlobalKind::I32,
            ValType::I64 => GlobalKind::I64,
            ValType::F32 => GlobalKind::F32,
            ValType::F64 => GlobalKind::F64,
            other => {
                let reason = "use i32, i64, f32 or f64";
                return Err(RewriteError::Unsupported(format!("its mutable global {index} is a {other}; {reason}")));
            }
        };
        let export = exports.global_name(index)?;
        saved.push(MutableGlobal { index, export, kind });
    }
    Ok(saved)
}

/// Returns the indices of the functions in `wanted`, as found in the `name` section.
fn function_indices(sections: &Sections<'_>, wanted: &BTreeSet<&str>) -> Result<BTreeMap<String, u32>, RewriteError> {
    let mut found = BTreeMap::new();
    let Some(names) = sections.names().filter(|_| !wanted.is_empty()) else {
        return Ok(found);
    };
    for part in names {
        let Name::Function(map) = part? else { continue };
        for naming in map {
            let naming = naming?;
            if wanted.contains(naming.name) && found.insert(naming.name.to_owned(), naming.index).is_some() {
                return Err(RewriteError::AmbiguousFunction(naming.name.to_owned()));
            }
        }
    }
    Ok(found)
}
