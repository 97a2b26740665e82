//! Placeholder for the stripper in builds without the feature `typescript`.

use std::convert::Infallible;

use super::{Strip, Stripped};

/// An empty type: no value exists.
pub(crate) struct Stripper(Infallible);

impl Stripper {
    pub(crate) fn strip(&self, _: Strip<'_>) -> Result<(Stripped, u64), String> {
        match self.0 {}
    }
}
