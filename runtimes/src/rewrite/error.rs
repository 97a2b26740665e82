//! Why a module cannot be rewritten.

use glovebox_vfs::{escaped, escaped_text};
use wasmparser::BinaryReaderError;

/// Why a module cannot be inspected or rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The bytes are no well-formed module.
    #[error("this is no valid WebAssembly module: {0}")]
    Malformed(#[from] BinaryReaderError),
    /// The bytes are a component.
    #[error("this is a WebAssembly component, not a core module; an interpreter has to be a core module")]
    Component,
    /// The module does something that a saved memory image cannot hold.
    #[error("this module cannot be prepared: {name}; it can still run as a plain command", name = escaped_text(.0))]
    Unsupported(String),
    /// A function to be exported is not in the `name` section.
    #[error("this module names no function `{name}`; its binary does not fit its recipe", name = escaped(.0))]
    NoFunction(String),
    /// Several functions have the name of one to be exported.
    #[error("this module names several functions `{name}`; its binary does not fit its recipe", name = escaped(.0))]
    AmbiguousFunction(String),
    /// A global or table to be exported does not exist.
    #[error("this module has no {kind} {index} to export as `{name}`; its binary does not fit its recipe", name = escaped(.name))]
    NoItem {
        /// `global` or `table`.
        kind: &'static str,
        /// Its index.
        index: u32,
        /// The export's name.
        name: String,
    },
    /// Something else is exported under the name.
    #[error("this module exports something else as `{name}`; its binary does not fit its recipe", name = escaped(.0))]
    ExportTaken(String),
    /// The saved memory does not fit the module.
    #[error("the memory image does not fit the module: {name}", name = escaped_text(.0))]
    Image(String),
    /// A saved global does not fit the module.
    #[error("the saved value of global {index} does not fit the module: {problem}")]
    Global {
        /// The global's index.
        index: u32,
        /// What is wrong.
        problem: String,
    },
}
