//! Changes WebAssembly modules: adds exports and callbacks, wraps functions, removes custom sections, and replaces
//! memory and globals with a booted instance's memory and globals.
//!
//! The input is untrusted: a damaged or hostile module produces a [`RewriteError`], in time and memory proportional to
//! its length. The output depends only on the input, because the hash of a prepared module is its identity.

mod callbacks;
mod exports;
mod framed;
mod image;
mod inspect;
mod numpy;
mod parts;
mod quickjs;
mod sections;
mod splice;

use glovebox_vfs::{escaped, escaped_text};
use wasmparser::BinaryReaderError;

pub use exports::{Bootable, GlobalKind, MutableGlobal, with_exports};
pub use image::{GlobalValue, Image, MEMORY_EXPORT, MEMORY_IMPORT, code_of, initial_memory_of, memory_of, with_image};
pub use inspect::{
    Export, GlobalInfo, Import, ItemKind, MemoryInfo, ModuleInfo, ModuleKind, changes_only_memory_and_globals, inspect,
};
pub use parts::{BASE_IMPORT, LOADER_EXPORT, MAX_STUB_FUEL, part_of};
pub use sections::strip;

/// Errors from inspecting or rewriting a module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The bytes are not a well-formed module.
    #[error("not a valid WebAssembly module: {0}")]
    Malformed(#[from] BinaryReaderError),
    /// The bytes are a component instead of a core module.
    #[error("the binary is a WebAssembly component, not a core module; use an interpreter built as a core module")]
    Component,
    /// The module has a feature that preparation does not support, such as state outside memory and globals.
    #[error("the module cannot be prepared: {name}; it can still run as a plain command", name = escaped_text(.0))]
    Unsupported(String),
    /// A function that the recipe names, or that a change needs, is missing from the `name` section.
    #[error("the module has no function named `{name}`; its binary does not match its recipe", name = escaped(.0))]
    NoFunction(String),
    /// The recipe assigns functions to a part that the module does not have.
    #[error(
        "the recipe assigns functions {first}..{end} to a part, but the module has {count} functions; its binary does not match its recipe"
    )]
    NoFunctions {
        /// The index of the first assigned function.
        first: u32,
        /// The index after the last assigned function.
        end: u32,
        /// The number of functions in the module, including imported ones.
        count: usize,
    },
    /// Several functions have the name of a function that the recipe or a change names.
    #[error("the module has several functions named `{name}`; its binary does not match its recipe", name = escaped(.0))]
    AmbiguousFunction(String),
    /// A function's code differs from the code that its recipe changes.
    #[error("the module's function `{name}` has unexpected code; its binary does not match its recipe", name = escaped(.0))]
    UnexpectedCode(String),
    /// A function, global or table to export does not exist.
    #[error("the module has no {kind} {index} to export as `{name}`; its binary does not match its recipe", name = escaped(.name))]
    NoItem {
        /// `function`, `global` or `table`.
        kind: &'static str,
        /// The index of the item.
        index: u32,
        /// The export name.
        name: String,
    },
    /// The module already exports another item under this name.
    #[error("the module exports another item as `{name}`; its binary does not match its recipe", name = escaped(.0))]
    ExportTaken(String),
    /// The saved memory does not match the module.
    #[error("the memory image does not match the module: {name}", name = escaped_text(.0))]
    Image(String),
    /// A saved global does not match the module.
    #[error("the saved value of global {index} does not match the module: {problem}")]
    Global {
        /// The index of the global.
        index: u32,
        /// The mismatch, such as `it is immutable`.
        problem: String,
    },
}
