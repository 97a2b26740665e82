//! Weaving of guests and a shim into a component.

use crate::{
    Description, Guest, WeaveError, WeaveOptions, component,
    guest::Read,
    module::Module,
    served::served,
    woven::{self, Core},
};

/// A provider component, with statistics.
#[derive(Clone, Debug)]
pub struct Woven {
    /// The component's binary.
    pub component: Vec<u8>,
    /// The core module in it.
    pub core: Vec<u8>,
    /// Size of the module's code in bytes.
    pub code_bytes: usize,
    /// Size of the module's data in bytes, mostly images.
    pub data_bytes: usize,
    /// Names of the component's imports.
    pub imports: Vec<String>,
    /// Names of the component's exports.
    pub exports: Vec<String>,
    /// Description of the guests that the shim receives.
    pub description: Description,
}

impl Woven {
    /// Composes the component with the adapter that answers HTTP requests: [`served`].
    ///
    /// # Errors
    /// As for [`served`].
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
