//! How an execution was carried out.

use serde::{Deserialize, Serialize};

use crate::Language;

/// Whether fuel is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metering {
    /// It is, and `limits.fuel` holds.
    #[default]
    Fuel,
    /// It is not: the time limit alone ends a script that does not end. It runs faster, and `fuel_consumed` is 0.
    None,
}

/// How an execution was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The language: `python` or `javascript`.
    pub runtime: Language,
    /// The runtime's name in the manifest, or the path of a custom binary.
    pub runtime_name: String,
    /// The interpreter's version; absent for a custom binary.
    pub version: Option<String>,
    /// Whether a prepared image ran, or the binary booted as a plain command.
    pub prepared: bool,
    /// The prepared image's identity, the SHA-256 of its module: equal images behave alike.
    pub image_sha256: Option<String>,
    /// Whether its fuel was counted.
    pub metering: Metering,
    /// All bytes written to standard output, retained or not.
    pub stdout_total_bytes: u64,
    /// All bytes written to standard error, retained or not.
    pub stderr_total_bytes: u64,
}
