//! Errors of the manifest.

use glovebox_vfs::escaped;

/// Why a manifest is invalid, or a name is not in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not TOML, has an unknown or missing key, or a value of the wrong type.
    #[error("the manifest cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A key has an invalid value.
    #[error("`{key}` in the manifest: {problem}", key = escaped(.key))]
    Invalid {
        /// Path of the key in the document.
        key: String,
        /// Description of the problem, and of valid values.
        problem: String,
    },
    /// No runtime has this name.
    #[error("there is no runtime `{name}`; known ones are {known}", name = escaped(.name))]
    UnknownRuntime {
        /// Requested name.
        name: String,
        /// Known names, quoted and separated by commas.
        known: String,
    },
    /// The language is unknown.
    #[error("there is no language `{name}`; use `python` or `javascript`", name = escaped(.0))]
    UnknownLanguage(String),
}
