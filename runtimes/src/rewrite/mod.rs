//! Changes WebAssembly modules: adds exports and callbacks, wraps functions, removes custom sections, and replaces
//! memory and globals by those of a booted instance.
//!
//! The input is untrusted: a damaged or hostile module gives a [`RewriteError`], in time and memory proportional to its
//! length. The output depends only on the input, because the hash of a prepared module is its identity.

mod apart;
mod callbacks;
mod error;
mod export_section;
mod exports;
mod framed;
mod image;
mod inspect;
mod longer;
mod numpy;
mod sections;
mod state;

pub use apart::{Apart, MEMORY_EXPORT, MEMORY_IMPORT, apart, memory_of};
pub use error::RewriteError;
pub use exports::{Bootable, GlobalKind, MutableGlobal, with_exports};
pub use image::{GlobalValue, Image, with_image};
pub use inspect::{Export, GlobalInfo, Import, ItemKind, MemoryInfo, ModuleInfo, ModuleKind, inspect};
pub use sections::strip;
pub use state::changes_only_memory_and_globals;
