//! The manifest: identity, sources and recipes of the pinned binaries.

use std::collections::{BTreeMap, BTreeSet};

use glovebox_vfs::escaped;
use serde::Deserialize;

use crate::{
    Digest, Language, PackedSources, Recipe, RuntimeEntry, Source,
    entries::{ImageEntry, ImageOf, SetupStep, ToolEntry, ToolSource},
};

const BUILTIN: &str = include_str!("../manifest.toml");

/// Maximum size of a binary in bytes. The largest known interpreter is 99 MB. The limit bounds the disk space for a
/// download and the memory for reading a binary.
pub const MAX_BINARY_BYTES: u64 = 256 << 20;

/// The pinned binaries and their recipes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(rename = "runtime")]
    runtimes: Vec<RuntimeEntry>,
    /// The `[[image]]` tables. Parsing the manifest moves the tables to `runtimes`.
    #[serde(rename = "image", default)]
    images: Vec<ImageEntry>,
    #[serde(rename = "tool", default)]
    tools: Vec<ToolEntry>,
    #[serde(rename = "recipe", default)]
    recipes: BTreeMap<String, Recipe>,
}

impl Manifest {
    /// Parses the built-in manifest.
    ///
    /// # Errors
    /// Fails only if the built-in manifest is invalid, which is a bug.
    pub fn builtin() -> Result<Self, ManifestError> {
        Self::parse(BUILTIN)
    }

    /// Parses and checks a manifest.
    ///
    /// # Errors
    /// [`ManifestError::Syntax`] or [`ManifestError::Invalid`], which names the key.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut manifest: Self = toml::from_str(text)?;
        manifest.add_images()?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Inserts a runtime for each image after its base runtime.
    fn add_images(&mut self) -> Result<(), ManifestError> {
        for (at, image) in std::mem::take(&mut self.images).into_iter().enumerate() {
            let of = self.runtimes.iter().rposition(|entry| entry.file_owner() == image.runtime);
            let Some((of, base)) = of.and_then(|of| Some((of, self.runtimes.get(of)?.clone()))) else {
                let problem = format!("there is no `[[runtime]]` named `{}`", image.runtime);
                return Err(invalid(&format!("image[{at}].runtime"), problem));
            };
            if image.setup.trim().is_empty() {
                return Err(invalid(&format!("image[{at}].setup"), "code is required"));
            }
            let entry = RuntimeEntry {
                name: image.name,
                aliases: image.aliases,
                default: image.default,
                origin: image.origin,
                image: Some(ImageOf {
                    runtime: image.runtime,
                    modules: image.modules,
                    steps: vec![SetupStep { preload: Vec::new(), code: image.setup }],
                }),
                ..base
            };
            self.runtimes.insert(of + 1, entry);
        }
        Ok(())
    }

    /// Returns all runtimes, in the manifest's order.
    pub fn runtimes(&self) -> &[RuntimeEntry] {
        &self.runtimes
    }

    /// Returns the runtime with this name or alias.
    ///
    /// # Errors
    /// [`ManifestError::UnknownRuntime`], which lists the known names.
    pub fn find(&self, name: &str) -> Result<&RuntimeEntry, ManifestError> {
        self.runtimes
            .iter()
            .find(|entry| entry.name == name || entry.aliases.iter().any(|alias| alias == name))
            .ok_or_else(|| {
                let names: Vec<_> = self.runtimes.iter().map(|entry| format!("`{}`", entry.name)).collect();
                ManifestError::UnknownRuntime { name: name.to_owned(), known: names.join(", ") }
            })
    }

    /// Returns all tools, in the manifest's order.
    pub fn tools(&self) -> &[ToolEntry] {
        &self.tools
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&ToolEntry> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns the default runtime of a language.
    pub fn default_for(&self, language: Language) -> Option<&RuntimeEntry> {
        self.runtimes.iter().find(|entry| entry.default && entry.language == language)
    }

    /// Returns the runtime whose binary has this digest.
    pub fn by_digest(&self, digest: &Digest) -> Option<&RuntimeEntry> {
        self.runtimes.iter().find(|entry| entry.sha256 == *digest && entry.image.is_none())
    }

    /// Returns a runtime's images.
    pub fn images_of<'a>(&'a self, entry: &'a RuntimeEntry) -> impl Iterator<Item = &'a RuntimeEntry> {
        self.runtimes.iter().filter(|each| each.image.as_ref().is_some_and(|image| image.runtime == entry.name))
    }

    /// Returns the recipe with this name.
    pub fn recipe(&self, name: &str) -> Option<&Recipe> {
        self.recipes.get(name)
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.runtimes.is_empty() {
            return Err(invalid("runtime", "at least one runtime is required"));
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
                    return Err(invalid(
                        &key(field),
                        format!("`{name}` occurs twice; names and aliases must be unique"),
                    ));
                }
            }
            if entry.default && !defaults.insert(entry.language) {
                return Err(invalid(&key("default"), format!("`{}` already has a default runtime", entry.language)));
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
                    format!("`{}` is already the name of a runtime, an alias or a tool", tool.name),
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
        // The version is part of a file name, so it must contain only safe characters.
        check_name(&key("version"), &entry.version)?;
        check_size(&key("size_bytes"), entry.size_bytes)?;
        if let Some(library) = &entry.library {
            check_text(&key("library.file"), &library.file)?;
            check_size(&key("library.size_bytes"), library.size_bytes)?;
            if let Some(unpacked) = &library.unpacked {
                check_text(&key("library.unpacked.archive"), &unpacked.archive)?;
                check_directory(&key("library.unpacked.directory"), &unpacked.directory)?;
            }
            if let Some(sources) = &library.sources {
                if PackedSources::find(&sources.archive).is_none() {
                    let problem = format!("there are no sources named `{}`", escaped(&*sources.archive));
                    return Err(invalid(&key("library.sources.archive"), problem));
                }
                check_directory(&key("library.sources.directory"), &sources.directory)?;
            }
            let path = &library.guest_path;
            let parts = path.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>());
            if !parts.is_some_and(|parts| parts.len() > 1 && parts.iter().all(|part| !matches!(*part, "" | "." | "..")))
            {
                return Err(invalid(
                    &key("library.guest_path"),
                    format!("`{path}` must be the absolute path of a file in a directory"),
                ));
            }
        }
        if !self.recipes.contains_key(&entry.recipe) {
            return Err(invalid(&key("recipe"), format!("there is no `[recipe.{}]`", entry.recipe)));
        }
        if entry.sources.is_empty() {
            return Err(invalid(&key("sources"), "at least one source is required"));
        }
        for (at, source) in entry.sources.iter().enumerate() {
            let Source::Pypi { package, version, file } = source;
            // The package name and version are passed to pip, which must not interpret them as options or URLs.
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

/// Rejects paths that are absolute or contain empty, `.` or `..` components.
fn check_directory(key: &str, directory: &str) -> Result<(), ManifestError> {
    if directory.split('/').all(|part| !matches!(part, "" | "." | "..")) {
        return Ok(());
    }
    Err(invalid(key, format!("`{directory}` must be a relative path without empty, `.` or `..` parts")))
}

pub(crate) fn check_text(key: &str, text: &str) -> Result<(), ManifestError> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(invalid(key, "it must be a single line of text"));
    }
    Ok(())
}

/// Checks a name that is used in file names and command lines.
pub(crate) fn check_name(key: &str, name: &str) -> Result<(), ManifestError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '!');
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !starts_well || name.len() > 64 || !name.chars().all(plain) {
        return Err(invalid(
            key,
            format!(
                "`{name}` must be 1 to 64 letters, digits, `.`, `-`, `_`, `+` or `!`, starting with a letter or digit"
            ),
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
        return Err(invalid(&key("sources"), "at least one source is required"));
    }
    for (at, source) in tool.sources.iter().enumerate() {
        let key = |field: &str| key(&format!("sources[{at}].{field}"));
        let ToolSource::Npm { package, version, file } = source;
        // The package name and version are passed to npm, which must not interpret them as options, paths or URLs.
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

/// Errors from parsing a manifest or finding a name in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not TOML, has an unknown or missing key, or has a value of the wrong type.
    #[error("cannot read the manifest: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A key has an invalid value.
    #[error("`{key}` in the manifest: {problem}", key = escaped(.key))]
    Invalid {
        /// The path of the key in the document.
        key: String,
        /// The rule that the value violates, with the valid values.
        problem: String,
    },
    /// No runtime has this name.
    #[error("there is no runtime `{name}`; use one of {known}", name = escaped(.name))]
    UnknownRuntime {
        /// The requested name.
        name: String,
        /// The known names, quoted and separated by commas.
        known: String,
    },
}
