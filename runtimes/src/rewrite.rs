//! Changing a WebAssembly module without changing its code: exports and callbacks added, custom sections removed,
//! memory and globals replaced by those of a booted instance.
//!
//! Everything here takes bytes from anywhere: a module that is damaged or made to hurt gives a
//! [`RewriteError`], in time and memory proportional to its length. Output depends on nothing but the
//! input, because the hash of a prepared module is its identity.

mod callbacks;
mod error;
mod exports;
mod image;
mod inspect;
mod sections;
mod state;

pub use error::RewriteError;
pub use exports::{Bootable, GlobalKind, MutableGlobal, with_exports};
pub use image::{GlobalValue, Image, with_image};
pub use inspect::{Export, GlobalInfo, Import, ItemKind, MemoryInfo, ModuleInfo, ModuleKind, inspect};
pub use sections::strip;
pub use state::changes_only_memory_and_globals;
