//! How an execution was carried out.

use serde::Serialize;

use crate::Language;

/// How an execution was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// All bytes written to standard output, kept or not.
    pub stdout_total_bytes: u64,
    /// All bytes written to standard error, kept or not.
    pub stderr_total_bytes: u64,
}
