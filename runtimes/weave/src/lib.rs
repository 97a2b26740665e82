//! Adds fuel metering to an interpreter's code, for the engine. For a provider, also weaves prepared interpreters and a
//! shim into one core module, and encodes the module as a component that contains the sandbox.
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
//! In the woven module, each guest has its own memory, table, globals, tags and functions, and none of these items is
//! exported. The functions that the shim imports from `glovebox:machine` are generated. The shim accesses guests only
//! through these functions. The guests' code calls the shim's exports named `glovebox:wasi/…` and `glovebox:machine/…`,
//! which the component does not export.
//!
//! The limits of guests are part of the generated code, so they apply even in hosts that do not enforce limits:
//!
//! * fuel, counted exactly as in Wasmtime 48 ([`metered`] adds the same metering to a single module, for the engine);
//! * call depth, low enough for the usual stack sizes of hosts;
//! * the size of a guest's memory, which the shim controls.
//!
//! Exhausted fuel, an exit, exceeded limits, `unreachable` and calls that are too deep all throw the same exception.
//! Only the functions that call into a guest catch this exception. A guest's own handlers never catch it. A genuine
//! trap (an out-of-bounds access, a division by zero, a wrong indirect call) cannot be caught, and ends the instance.
//!
//! Modules are untrusted. [`WeaveError`] identifies a module that is damaged or uses a feature that weaving does not
//! support.

mod body;
mod charges;
mod component;
mod depth;
mod glue;
mod guest;
mod lengths;
mod machine;
mod metered;
mod plan;
mod reach;
mod values;
mod weave;

pub use component::{WovenComponent, served, weave};
pub use guest::{
    Description, GlobalDescription, Guest, GuestDescription, GuestLibrary, LibraryDescription, WeaveDescription,
};
pub use metered::{Counter, FUEL_EXPORT, REFUEL_EXPORT, REFUEL_IMPORT, metered};
pub use weave::{WeaveError, WeaveOptions};
