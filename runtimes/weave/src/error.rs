//! Why modules cannot be woven together.

use glovebox_vfs::escaped;
use std::convert::Infallible;

use wasm_encoder::reencode;

/// Why a provider cannot be made of a shim and its guests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeaveError {
    /// The bytes are no module that weaving knows how to handle.
    #[error("`{module}` is not a WebAssembly module that can be woven: {source}", module = escaped(.module))]
    Invalid {
        /// The guest's name, or `the shim`.
        module: String,
        /// What its validation says.
        source: wasmparser::Error,
    },
    /// The module does something that the woven one cannot do.
    #[error("`{module}` cannot be woven: {what}", module = escaped(.module))]
    Unsupported {
        /// The guest's name, or `the shim`.
        module: String,
        /// What it does.
        what: String,
    },
    /// The shim and the guests do not fit each other.
    #[error("the shim does not fit: {0}; build it with `guest-shims/component/build`")]
    Shim(String),
    /// What was given cannot be woven.
    #[error("nothing can be woven of this: {0}")]
    Guests(String),
    /// No component could be made of the woven module.
    #[error("the woven module makes no component: {0}")]
    Component(String),
    /// The provider and the adapter for HTTP make no component.
    #[error("the provider and the adapter for HTTP do not fit each other: {0}")]
    Served(String),
}

impl WeaveError {
    pub(crate) fn unsupported(module: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { module: module.to_owned(), what: what.into() }
    }

    /// Says which module could not be encoded again.
    pub(crate) fn encoding(module: &str) -> impl Fn(reencode::Error<Infallible>) -> Self {
        move |error| match error {
            reencode::Error::ParseError(source) => Self::Invalid { module: module.to_owned(), source },
            other => Self::unsupported(module, other.to_string()),
        }
    }

    /// Says which module could not be read.
    pub(crate) fn invalid(module: &str) -> impl Fn(wasmparser::Error) -> Self {
        move |source| Self::Invalid { module: module.to_owned(), source }
    }
}
