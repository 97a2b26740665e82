//! Weaving of guests and a shim into a component: its options, errors, and encoding.

use std::{convert::Infallible, fmt::Display};

use glovebox_vfs::escaped;
use wasm_encoder::reencode;
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use crate::{
    Description, Guest,
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
        (self.imports, self.exports) = names(&self.component)?;
        Ok(self)
    }
}

/// Weaves guests into a shim. The same inputs give the same bytes.
pub fn weave(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<Woven, WeaveError> {
    let core = core(shim, guests, options)?;
    let component = component(&core.wasm)?;
    let (imports, exports) = names(&component)?;
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

/// Options for weaving.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// Estimated limit of native stack for nested calls in a guest, in bytes. A call that exceeds it unwinds the guest.
    ///
    /// Default: 320 KiB. Cranelift gives half of the 10,200 counted functions of CPython and QuickJS a frame of at most
    /// 0.53 of the estimate. A few frames are larger, among them the interpreter loop of QuickJS, which takes part in
    /// every recursion: 1.2 times the estimate in Wasmtime 49, 1.5 times in 50. The limit therefore fits into
    /// Wasmtime's default stack of 512 KiB, with room for the shim. V8 gives 984 KiB.
    pub stack_bytes: u32,
    /// Meters fuel. Without metering a script can run forever, so disable it for measurements only.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}

/// Why a provider cannot be made of a shim and its guests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeaveError {
    /// The bytes are not a valid module, or use a WebAssembly feature that weaving does not support.
    #[error("`{module}` is not a WebAssembly module that can be woven: {source}", module = escaped(.module))]
    Invalid {
        /// The guest's name, or `the shim`.
        module: String,
        /// The validator's error.
        source: wasmparser::Error,
    },
    /// The module uses something that a woven module cannot do.
    #[error("`{module}` cannot be woven: {what}", module = escaped(.module))]
    Unsupported {
        /// The guest's name, or `the shim`.
        module: String,
        /// The unsupported feature.
        what: String,
    },
    /// The shim does not match the weaver or the guests.
    #[error("invalid shim: {0}; build it with `guest-shims/component/build`")]
    Shim(String),
    /// The guests or their description cannot be woven.
    #[error("cannot weave: {0}")]
    Guests(String),
    /// The woven module cannot be encoded as a component.
    #[error("cannot encode the woven module as a component: {0}")]
    Component(String),
    /// The provider and the HTTP adapter cannot be composed.
    #[error("the provider and the HTTP adapter do not match: {0}")]
    Served(String),
}

impl WeaveError {
    pub(crate) fn unsupported(module: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { module: module.to_owned(), what: what.into() }
    }

    /// Returns a closure that converts encoding errors of the module.
    pub(crate) fn encoding(module: &str) -> impl Fn(reencode::Error<Infallible>) -> Self {
        move |error| match error {
            reencode::Error::ParseError(source) => Self::Invalid { module: module.to_owned(), source },
            other => Self::unsupported(module, other.to_string()),
        }
    }

    /// Returns a closure that converts parse errors of the module.
    pub(crate) fn invalid(module: &str) -> impl Fn(wasmparser::Error) -> Self {
        move |source| Self::Invalid { module: module.to_owned(), source }
    }
}

/// Makes a component of the woven module, according to its `component-type` section.
pub(crate) fn component(core: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let mut encoder = ComponentEncoder::default().validate(true).module(core).map_err(failed)?;
    without_names(encoder.encode().map_err(failed)?)
}

/// Removes the name section, which is 7 KB long and never read.
fn without_names(mut component: Vec<u8>) -> Result<Vec<u8>, WeaveError> {
    let (mut depth, mut end, mut names) = (0u32, 0, None);
    for payload in Parser::new(0).parse_all(&component) {
        let payload = payload.map_err(failed)?;
        let section = payload.as_section().map(|(_, range)| range).filter(|_| depth == 1);
        match &payload {
            Payload::Version { range, .. } if depth == 0 => end = range.end,
            Payload::CustomSection(custom) if depth == 1 && custom.name() == "component-name" => {
                // The section's header lies between the previous section and its contents.
                names = section.as_ref().map(|section| end..section.end);
            }
            _ => {}
        }
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        end = section.map_or(end, |section| section.end);
    }
    if let Some(names) = names {
        component.drain(names);
    }
    Ok(component)
}

/// Returns the names of a component's imports and of its exports.
pub(crate) fn names(component: &[u8]) -> Result<(Vec<String>, Vec<String>), WeaveError> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(failed)? {
            // Nested modules and components have imports and exports of their own.
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(failed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(failed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// Converts an encoder's error, with its whole chain of causes.
fn failed(error: impl Display) -> WeaveError {
    WeaveError::Component(format!("{error:#}"))
}
