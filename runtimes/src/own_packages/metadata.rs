//! Metadata of wheels.

use super::error::OwnPackageError;
use crate::Digest;
use crate::wheel_files::{Compiled, Wheel, WheelFault};

/// Maximum size of a wheel's metadata in bytes. The longest of the bundled wheels has 50 KB.
pub(super) const MAX_METADATA_BYTES: u64 = 1 << 20;

/// Maximum length of a name, a version or an import.
const MAX_NAME_BYTES: usize = 100;

/// A package that the user installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPackage {
    /// Name of the package.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// File name of the wheel.
    pub file: String,
    /// Digest of the wheel.
    pub sha256: Digest,
    /// Licence in the metadata, or an empty string.
    pub licence: String,
    /// Names that scripts import.
    pub imports: Vec<String>,
    /// Requirements in the metadata, without those of extras.
    pub requires: Vec<String>,
    /// Number of files.
    pub file_count: usize,
    /// Unpacked size in bytes, as the wheel claims. Unpacking enforces it.
    pub unpacked_bytes: u64,
}

/// Reads a wheel's metadata without unpacking anything else.
pub(super) fn describe<'a>(file: &str, bytes: &'a [u8]) -> Result<(OwnPackage, Wheel<'a>), OwnPackageError> {
    let bad_name = || OwnPackageError::FileName(file.escape_debug().take(200).collect());
    let parts: Vec<&str> = file.strip_suffix(".whl").ok_or_else(bad_name)?.split('-').collect();
    let (name, version, python, abi, platform) = match parts.as_slice() {
        [name, version, python, abi, platform] | [name, version, _, python, abi, platform] => {
            (*name, *version, *python, *abi, *platform)
        }
        _ => return Err(bad_name()),
    };
    if !parts.iter().all(|part| is_name(part)) {
        return Err(bad_name());
    }
    if (abi, platform) != ("none", "any") {
        return Err(OwnPackageError::Platform(file.to_owned(), format!("{abi}-{platform}")));
    }
    if !python.split('.').any(|tag| matches!(tag, "py3" | "py312")) {
        return Err(bad_name());
    }
    let unusable = |source| OwnPackageError::Wheel { file: file.to_owned(), source };
    let mut wheel = Wheel::open(bytes, Compiled::Refused).map_err(unusable)?;
    let wrong = |problem: &str| OwnPackageError::Metadata { file: file.to_owned(), problem: problem.to_owned() };
    let metadata = wheel
        .paths()
        .find(|path| path.split_once('/').is_some_and(|(dir, file)| file == "METADATA" && dir.ends_with(".dist-info")));
    let metadata = metadata.ok_or_else(|| wrong("it has no `.dist-info/METADATA`"))?.to_owned();
    let metadata = wheel.read(&metadata, MAX_METADATA_BYTES).map_err(|source| match source {
        WheelFault::TooLarge => wrong("its metadata is longer than a megabyte"),
        source => unusable(source),
    })?;
    let metadata = String::from_utf8_lossy(metadata.as_deref().unwrap_or_default());
    let field = |key: &str| -> Vec<String> {
        let head = metadata.lines().map(str::trim_end).take_while(|line| !line.is_empty());
        let values = head.filter_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case(key)));
        values.map(|(_, value)| value.chars().filter(|c| !c.is_control()).take(200).collect()).collect()
    };
    let said = field("Name").into_iter().next().unwrap_or_default();
    if normal(&said) != normal(name) || field("Version").first().map(String::as_str) != Some(version) {
        return Err(wrong("the name or version in its metadata does not match its file name"));
    }
    let imports = imports(wheel.paths());
    if imports.is_empty() {
        return Err(wrong("it has no importable module"));
    }
    let licence = field("License-Expression").into_iter().chain(field("License")).next().unwrap_or_default();
    let requires = field("Requires-Dist").into_iter().filter(|needed| !needed.contains("extra ==")).collect();
    let package = OwnPackage {
        name: said,
        version: version.to_owned(),
        file: file.to_owned(),
        sha256: Digest::of(bytes),
        licence,
        imports,
        requires,
        file_count: wheel.file_count(),
        unpacked_bytes: wheel.claimed_bytes(),
    };
    Ok((package, wheel))
}

/// Returns the top-level modules and packages.
fn imports<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = paths
        .filter_map(|path| match path.split_once('/') {
            Some((top, rest)) => rest.ends_with(".py").then_some(top),
            None => path.strip_suffix(".py"),
        })
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_') && name.len() <= MAX_NAME_BYTES)
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the normalised form of a package's name.
pub fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Returns `true` if a text is safe in file names and command lines.
pub(super) fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
    let starts_well = part.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    starts_well && part.len() <= MAX_NAME_BYTES && part.chars().all(plain)
}
