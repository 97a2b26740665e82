//! Weaving: prepared interpreters and a shim become one core module, and that a component that has the sandbox in it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (shim, module, exports) = (vec![], vec![], vec!["JS_Eval".to_owned()]);
//! # let (anchors, globals) = (Default::default(), vec![]);
//! use glovebox_runtimes::Digest;
//! use glovebox_weave::{Guest, WeaveOptions, weave};
//!
//! let guest = Guest {
//!     name: "javascript",
//!     aliases: &[],
//!     language: "javascript",
//!     driver: "quickjs-reactor",
//!     version: "0.17.0",
//!     module: &module,
//!     image_sha256: Digest::of(&module),
//!     anchors: &anchors,
//!     globals: &globals,
//!     exports: &exports,
//!     library: None,
//! };
//! let woven = weave(&shim, &[guest], &WeaveOptions::default())?;
//! std::fs::write("glovebox-javascript.wasm", woven.component)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each guest keeps a memory, a table, globals, tags and functions of its own in the woven module; none of them is exported. What the shim
//! imports from `glovebox:machine` is generated, and is all that it reaches a guest by. What it exports as
//! `glovebox:wasi/…` and `glovebox:machine/…` is for the guests' code, and taken from its exports.
//!
//! What the guests' code may do is bounded in the code itself, so that it holds in hosts that bound nothing:
//!
//! * fuel, counted as Wasmtime 48 counts it, to the unit ([`metered`] is the same for one module alone, to be compared);
//! * the depth of calls, below what the usual hosts give a stack;
//! * the size of its memory, which is what the shim says it is.
//!
//! Out of fuel, exit, limits, `unreachable` and too deep a call throw one exception, which only the functions that call into a guest
//! catch: a guest that catches exceptions of its own never catches this. A genuine trap (an access out of bounds, a division by zero, a wrong indirect call) cannot be caught: it ends the instance.
//!
//! Modules are bytes from anywhere: what is damaged, or does something that weaving does not know, is refused with a
//! [`WeaveError`] that names it.

mod assembly;
mod body;
mod calls;
mod charges;
mod compare;
mod component;
mod cost;
mod depth;
mod describe;
mod error;
mod glue;
mod guest;
mod image;
mod landings;
mod lengths;
mod library;
mod machine;
mod metered;
mod module;
mod options;
mod plan;
mod reach;
mod segments;
mod served;
mod shift;
mod switch;
mod values;
mod weave;
mod woven;

pub use describe::{Description, GlobalDescription, GuestDescription, WeaveDescription};
pub use error::WeaveError;
pub use guest::Guest;
pub use library::{GuestLibrary, LibraryDescription};
pub use metered::metered;
pub use options::WeaveOptions;
pub use served::served;
pub use weave::{Woven, weave};
