//! Python packages for all guests of an engine.

#[cfg(feature = "packages")]
mod bundled;
#[cfg(not(feature = "packages"))]
mod without;

#[cfg(feature = "packages")]
pub(crate) use bundled::{SharedPackages, open};
#[cfg(not(feature = "packages"))]
pub(crate) use without::{SharedPackages, open};
