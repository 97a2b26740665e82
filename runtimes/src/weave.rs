//! Weaving: prepared interpreters and a shim become one core module, and that a component.

mod assembly;
mod body;
mod calls;
mod compare;
mod component;
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// What calls in a guest may take of the native stack, as it is estimated.
    pub stack_bytes: u32,
    /// Whether fuel is counted. Without it nothing bounds what a script does: for measuring only.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 400 << 10, metered: true }
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
