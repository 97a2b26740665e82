//! Weaving: prepared interpreters and a shim become one core module, and that a component.

mod assembly;
mod body;
mod error;
mod lengths;
mod metered;
mod module;
mod reach;
mod shift;
mod values;

pub use error::WeaveError;
pub use metered::metered;
