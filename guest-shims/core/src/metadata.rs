//! Information about an execution apart from its outcome.

use serde::{Deserialize, Serialize};

use crate::Language;

/// The counting of fuel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metering {
    /// Fuel is counted, and `limits.fuel` applies.
    #[default]
    Fuel,
    /// Fuel is not counted. Only the time limit ends an endless script. Scripts run faster, and `fuel_consumed` is 0.
    None,
}

/// Information about an execution apart from its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The language: `python` or `javascript`.
    pub runtime: Language,
    /// The runtime's name in the manifest, or the path of a custom binary.
    pub runtime_name: String,
    /// The interpreter's version; absent for a custom binary.
    pub version: Option<String>,
    /// `true` if a prepared image ran, `false` if the binary booted as a plain command.
    pub prepared: bool,
    /// The identity of the prepared image, the SHA-256 of its module. Equal images behave alike.
    pub image_sha256: Option<String>,
    /// The counting of fuel in this execution.
    pub metering: Metering,
    /// Total bytes written to standard output, retained or not.
    pub stdout_total_bytes: u64,
    /// Total bytes written to standard error, retained or not.
    pub stderr_total_bytes: u64,
}
