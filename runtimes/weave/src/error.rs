//! Errors of weaving.

use glovebox_vfs::escaped;
use std::convert::Infallible;

use wasm_encoder::reencode;

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
