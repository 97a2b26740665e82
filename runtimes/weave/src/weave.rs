//! Guests and a shim in, a component out.

use crate::{
    Description, Guest, WeaveError, WeaveOptions, component,
    guest::Read,
    module::Module,
    served::served,
    woven::{self, Core},
};

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

impl Woven {
    /// The same with the adapter before it that answers HTTP requests: [`served`].
    ///
    /// # Errors
    /// As of [`served`].
    pub fn served(mut self, adapter: &[u8]) -> Result<Self, WeaveError> {
        self.component = served(&self.component, adapter)?;
        (self.imports, self.exports) = component::names(&self.component)?;
        Ok(self)
    }
}

/// Weaves guests into a shim. The same inputs give the same bytes.
pub fn weave(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<Woven, WeaveError> {
    let core = core(shim, guests, options)?;
    let component = component::component(&core.wasm)?;
    let (imports, exports) = component::names(&component)?;
    let Core { wasm, code_bytes, data_bytes, description } = core;
    Ok(Woven { component, core: wasm, code_bytes, data_bytes, imports, exports, description })
}

fn core(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<Core, WeaveError> {
    if guests.is_empty() {
        return Err(WeaveError::Guests("there is no guest".to_owned()));
    }
    let shim = Module::read("the shim", shim)?;
    let guests = guests.iter().map(Read::new).collect::<Result<_, _>>()?;
    woven::core(&shim, guests, options)
}
