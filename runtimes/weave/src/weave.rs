//! Weaves guests and a shim into one core module. Defines the options and errors of weaving.

use std::convert::Infallible;

use glovebox_vfs::escaped;
use wasm_encoder::reencode;

use crate::{
    Guest,
    guest::{Module, Read},
    woven::{self, WovenCore},
};

/// Weaves guests into a shim, without encoding the result as a component. Identical inputs produce identical bytes.
pub(crate) fn weave_core(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<WovenCore, WeaveError> {
    if guests.is_empty() {
        return Err(WeaveError::Guests("no guests given; name at least one".to_owned()));
    }
    let shim = Module::read("the shim", shim)?;
    let guests = guests.iter().map(Read::new).collect::<Result<_, _>>()?;
    woven::core(&shim, guests, options)
}

/// Options for weaving.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// The maximum estimated native stack use of nested calls in a guest, in bytes. A call that exceeds this limit
    /// unwinds the guest.
    ///
    /// Default: 320 KiB. This fits in Wasmtime's default stack of 512 KiB with room for the shim, although a few frames
    /// are larger than their estimate. One of these is the frame of QuickJS's interpreter loop, which is part of every
    /// recursion. It is 1.2 times its estimate in Wasmtime 49, and 1.5 times in Wasmtime 50. The median frame of the
    /// 10,200 possibly recursive functions of CPython and QuickJS is 0.53 times its estimate. V8's default stack is 984
    /// KiB.
    pub stack_bytes: u32,
    /// `true` to meter fuel. Default: `true`. Without metering, a script can run forever, so disable it only for
    /// measurements.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}

/// Errors from weaving a provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeaveError {
    /// The bytes are not a valid module, or use a WebAssembly feature that weaving does not support.
    #[error("`{module}` is not a supported WebAssembly module: {source}", module = escaped(.module))]
    Invalid {
        /// The guest's name, or `the shim`.
        module: String,
        /// The validator's error.
        source: wasmparser::Error,
    },
    /// The module uses a feature that a woven module cannot support.
    #[error("cannot weave `{module}`: {what}", module = escaped(.module))]
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

    /// Returns a closure that converts errors from encoding the module.
    pub(crate) fn encoding(module: &str) -> impl Fn(reencode::Error<Infallible>) -> Self {
        move |error| match error {
            reencode::Error::ParseError(source) => Self::Invalid { module: module.to_owned(), source },
            other => Self::unsupported(module, other.to_string()),
        }
    }

    /// Returns a closure that converts errors from parsing the module.
    pub(crate) fn invalid(module: &str) -> impl Fn(wasmparser::Error) -> Self {
        move |source| Self::Invalid { module: module.to_owned(), source }
    }
}
