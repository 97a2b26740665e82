//! Adds Python packages that the policy allows: those that scripts require in inline metadata, or all of them.

use std::{collections::BTreeSet, str::FromStr};

use anyhow::Context;
use glovebox::{PackageList, Policy, UserPackage, UserPackages, escaped, escaped_text};
use glovebox_runtimes::{PackageEntry, UserPackageError, normal_package_name};
use pep440_rs::{Version, VersionSpecifiers};
use serde::Deserialize;

use crate::{
    engine::{StepProgress, user_packages_dir},
    session_dir,
    terminal::note,
};

/// Maximum size of a script's inline metadata in bytes. Larger metadata is ignored, with a note.
const MAX_METADATA_BYTES: usize = 64 << 10;

/// Opens the directory of added packages, and creates it if needed.
pub(crate) fn open_user_packages() -> anyhow::Result<UserPackages> {
    session_dir::create_state_dir()?;
    let dir = user_packages_dir()?;
    UserPackages::open(&dir).with_context(|| format!("cannot open the package directory `{}`", escaped(&dir)))
}

/// Adds a package of the catalogue and its requirements, except those that are already present. Returns the added
/// packages.
pub(crate) fn add_with_requirements(
    own: &UserPackages,
    catalogue: &PackageList,
    package: &PackageEntry,
) -> anyhow::Result<Vec<UserPackage>> {
    let present = own.list()?;
    let is_missing = |package: &&PackageEntry| present.iter().all(|other| other.sha256 != package.sha256);
    let missing = catalogue.with_requirements(package).into_iter().filter(is_missing);
    let steps = StepProgress::default();
    let wheels: Result<Vec<_>, UserPackageError> =
        missing.map(|package| Ok((&package.file, own.download_pinned(package, &steps)?))).collect();
    let taken = PackageList::builtin()?.modules();
    wheels?.into_iter().map(|(file, bytes)| Ok(own.add(file, &bytes, &taken)?)).collect()
}

/// Adds all packages that a policy allows. Servers and the REPL do this when they start, because they do not know their
/// scripts in advance.
#[cfg(feature = "full")]
pub(crate) fn add_allowed(policy: &Policy) -> anyhow::Result<()> {
    let catalogue = PackageList::catalogue()?;
    for name in &policy.packages {
        add_allowed_package(&catalogue, name)?;
    }
    Ok(())
}

/// Adds the packages that a script requires in its inline metadata and the policy allows. Only prints a note about
/// invalid metadata, a package that the policy does not allow, or a wrong version, because the script might not import
/// the package.
pub(crate) fn add_required(label: &str, text: &str, policy: &Policy) -> anyhow::Result<()> {
    let requirements = match requirements(text) {
        Ok(requirements) => requirements,
        Err(problem) => {
            note(&format!("the inline metadata of `{}` is ignored: {problem}", escaped(label)));
            return Ok(());
        }
    };
    if requirements.is_empty() {
        return Ok(());
    }
    let (catalogue, present) = (PackageList::catalogue()?, added_packages()?);
    let mut seen = BTreeSet::new();
    for Requirement { name, versions } in &requirements {
        if !seen.insert(normal_package_name(name)) {
            continue;
        }
        let same = |other: &str| normal_package_name(other) == normal_package_name(name);
        let version = if let Some(own) = present.iter().find(|package| same(&package.name)) {
            &own.version
        } else if let Some(package) = catalogue.find(name) {
            if !policy.packages.iter().any(|allowed| same(allowed)) {
                note(&format!(
                    "`{}` requires the package `{name}`; allow it with --allow-package {name}, or add it with `glovebox packages add {name}`",
                    escaped(label)
                ));
                continue;
            }
            add_allowed_package(&catalogue, name)?;
            &package.version
        } else {
            // The package is bundled, or unknown. The import of an unknown package fails with advice.
            continue;
        };
        if Version::from_str(version).is_ok_and(|version| !versions.contains(&version)) {
            note(&format!(
                "`{}` requires `{name} {versions}`, but version {version} is installed; add another with `glovebox packages add {name}==VERSION`",
                escaped(label)
            ));
        }
    }
    Ok(())
}

/// Returns the added packages, without creating their directory.
fn added_packages() -> anyhow::Result<Vec<UserPackage>> {
    if user_packages_dir()?.is_dir() { Ok(open_user_packages()?.list()?) } else { Ok(Vec::new()) }
}

fn add_allowed_package(catalogue: &PackageList, name: &str) -> anyhow::Result<()> {
    let package =
        catalogue.find(name).with_context(|| format!("`{}` is not in the catalogue of packages", escaped(name)))?;
    let added = add_with_requirements(&open_user_packages()?, catalogue, package);
    for package in added.with_context(|| format!("cannot add the package `{}`", escaped(name)))? {
        note(&format!("added the package {} {}", escaped(&package.name), escaped(&package.version)));
    }
    Ok(())
}

/// A required package.
#[derive(Debug, PartialEq)]
struct Requirement {
    /// The name, which consists of letters, digits, `.`, `_` and `-`.
    name: String,
    /// The versions that the script accepts.
    versions: VersionSpecifiers,
}

/// The inline metadata of a script. Keys other than `dependencies` have no effect.
#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Returns the requirements in a script's inline metadata
/// (<https://packaging.python.org/en/latest/specifications/inline-script-metadata/>). Requirements with a URL or an
/// environment marker are left out.
fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let blocks = blocks(text);
    let block = match blocks.as_slice() {
        [] => return Ok(Vec::new()),
        [block] => block.join("\n"),
        _ => return Err("there is more than one `# /// script` block; keep one".to_owned()),
    };
    if block.len() > MAX_METADATA_BYTES {
        return Err(format!("it is {} bytes long; the maximum is {MAX_METADATA_BYTES}", block.len()));
    }
    let metadata: Metadata = toml::from_str(&block).map_err(|error| escaped_text(error.message()).to_string())?;
    metadata.dependencies.iter().filter(|text| !text.contains([';', '@'])).map(|text| requirement(text)).collect()
}

/// Returns the lines of each `# /// script` block, without their comment characters.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line != "# /// script" {
            continue;
        }
        let comments: Vec<&str> = lines.clone().take_while(|line| *line == "#" || line.starts_with("# ")).collect();
        // In a block without an end, no later comment line can start a block either.
        let skipped = match comments.iter().rposition(|line| *line == "# ///") {
            Some(end) => {
                let content = comments.iter().take(end);
                blocks.push(content.map(|line| line.get(2..).unwrap_or_default()).collect());
                end
            }
            None => comments.len(),
        };
        lines.by_ref().take(skipped).for_each(drop);
    }
    blocks
}

/// Parses a requirement such as `flask[async] >= 3.0, < 4`.
fn requirement(text: &str) -> Result<Requirement, String> {
    let wrong = || format!("`{}` is not a valid requirement; write it as `NAME` or `NAME>=VERSION`", escaped(text));
    let text = text.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    if name.is_empty() {
        return Err(wrong());
    }
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']').ok_or_else(wrong)?.1,
        None => rest,
    };
    let rest = rest.trim();
    let rest = rest.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(rest);
    let versions = VersionSpecifiers::from_str(rest).map_err(|_| wrong())?;
    Ok(Requirement { name: name.to_owned(), versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        Ok(requirements(text)?.into_iter().map(|requirement| requirement.name).collect())
    }

    #[test]
    fn requirements_are_read_as_the_specification_says() {
        let script = "#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"pytz\",\n#   \
                      \"flask[async] >= 3, <4\",\n#\n#   \"six; python_version < '3'\",\n# ]\n# ///\nprint(1)\n";
        assert_eq!(names(script).unwrap(), ["pytz", "flask"]);
        assert_eq!(names(&script.replace('\n', "\r\n")).unwrap(), ["pytz", "flask"]);
        for none in ["", "print(1)", "# /// script\nprint(1)\n# ///", "# /// other\n# dependencies = [\"a\"]\n# ///"] {
            assert_eq!(names(none).unwrap(), [""; 0], "{none}");
        }
    }

    #[test]
    fn invalid_metadata_is_named() {
        let block = |content: &str| format!("# /// script\n# {content}\n# ///\n");
        for (text, part) in [
            (block("dependencies = 1"), "invalid type"),
            (block("dependencies = [\"==1\"]"), "`==1` is not a valid requirement"),
            (block("dependencies = [\"a 1\"]"), "`a 1` is not a valid requirement"),
            (format!("{0}\n{0}", block("a = 1")), "more than one"),
        ] {
            let error = names(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn large_metadata_is_limited() {
        for (size, fits) in [(MAX_METADATA_BYTES, true), (MAX_METADATA_BYTES + 1, false)] {
            let text = format!("# /// script\n# a = '{}'\n# ///\n", "x".repeat(size - "a = ''".len()));
            assert_eq!(names(&text).is_ok(), fits, "{size}");
        }
        // Unterminated blocks are read only once.
        assert!(blocks(&"# /// script\n".repeat(300_000)).is_empty());
    }
}
