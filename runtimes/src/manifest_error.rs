//! Why there is no manifest.

use glovebox_vfs::escaped;

/// Why a manifest was refused, or a name in it not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not TOML, an unknown or missing key, or a value of the wrong type.
    #[error("the manifest cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A key has an invalid value.
    #[error("`{key}` in the manifest: {problem}", key = escaped(.key))]
    Invalid {
        /// The key, from the top of the document.
        key: String,
        /// What is wrong with its value, and what would be valid.
        problem: String,
    },
    /// No runtime has this name.
    #[error("there is no runtime `{name}`; known ones are {known}", name = escaped(.name))]
    UnknownRuntime {
        /// The name asked for.
        name: String,
        /// The existing names, quoted and separated by commas.
        known: String,
    },
    /// The language does not exist.
    #[error("there is no language `{name}`; use `python` or `javascript`", name = escaped(.0))]
    UnknownLanguage(String),
}
