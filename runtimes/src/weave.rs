//! Weaving: prepared interpreters and a shim become one core module, and that a component that has the sandbox in it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (shim, module, exports) = (vec![], vec![], vec!["JS_Eval".to_owned()]);
//! # let (anchors, globals) = (Default::default(), vec![]);
//! use glovebox_runtimes::{Digest, weave::{Guest, WeaveOptions, weave}};
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
//! };
//! let woven = weave(&shim, &[guest], &WeaveOptions::default())?;
//! std::fs::write("glovebox-javascript.wasm", woven.component)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each guest keeps a memory, a table, globals and functions of its own in the woven module; none of them is exported. What the shim
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
//! catch. A genuine trap (an access out of bounds, a division by zero, a wrong indirect call) cannot be caught: it ends the instance.
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
mod lengths;
mod machine;
mod metered;
mod module;
mod plan;
mod reach;
mod shift;
mod values;
mod woven;

pub use describe::{Description, GlobalDescription, GuestDescription, WeaveDescription};
pub use error::WeaveError;
pub use guest::Guest;
pub use metered::metered;

use module::Module;

/// How guests are woven in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// What calls in a guest may take of the native stack, as it is estimated; whatever would take more unwinds the guest.
    ///
    /// Default: 320 KiB. Of the 10,200 functions that are counted in CPython and QuickJS, Cranelift gives half a frame of 0.53 of the
    /// estimate or less, and few one that is larger; but QuickJS's interpreter itself, which recursion goes through, is one of these:
    /// 1.2 times in Wasmtime 49, 1.5 times in 50. So this fits into the 512 KiB that Wasmtime gives by default, with room for the
    /// shim; V8 gives 984 KiB.
    pub stack_bytes: u32,
    /// Whether fuel is counted. Without it nothing bounds what a script does: for measuring only.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}

/// What came of weaving.
#[derive(Clone, Debug)]
pub struct Woven {
    /// The component.
    pub component: Vec<u8>,
    /// The core module in it.
    pub core: Vec<u8>,
    /// How much of the module is code.
    pub code_bytes: usize,
    /// How much of it is data: the images, most of all.
    pub data_bytes: usize,
    /// The names of what the component imports.
    pub imports: Vec<String>,
    /// The names of what it exports.
    pub exports: Vec<String>,
    /// What the shim is told of the guests.
    pub description: Description,
}

/// Weaves guests into a shim. The same inputs give the same bytes.
pub fn weave(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<Woven, WeaveError> {
    let core = core(shim, guests, options)?;
    let component = component::component(&core.wasm)?;
    let (imports, exports) = component::names(&component)?;
    let woven::Core { wasm, code_bytes, data_bytes, description } = core;
    Ok(Woven { component, core: wasm, code_bytes, data_bytes, imports, exports, description })
}

fn core(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<woven::Core, WeaveError> {
    if guests.is_empty() {
        return Err(WeaveError::Guests("there is no guest".to_owned()));
    }
    let shim = Module::read("the shim", shim)?;
    let guests = guests.iter().map(guest::Read::new).collect::<Result<_, _>>()?;
    woven::core(&shim, guests, options)
}
