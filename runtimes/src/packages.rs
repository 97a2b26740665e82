//! The pinned Python packages: listing, fetching once, verifying, reading.

use glovebox_vfs::{escaped, escaped_text};
use std::io::Read;
use std::path::PathBuf;

use serde::Deserialize;

use crate::fetch::FetchFailure;
use crate::manifest::{check_name, check_text};
use crate::trusted::TrustedDir;
use crate::wheel_files::{Compiled, WheelFault, wheel_files};
use crate::{CacheError, Digest, Fetched, ManifestError, Progress, Runtimes};

/// The built-in list.
const BUILTIN: &str = include_str!("../packages.toml");

/// One pinned package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageEntry {
    /// Its name, as its project writes it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The wheel's file name, as the index has it.
    pub file: String,
    /// The wheel's expected digest.
    pub sha256: Digest,
    /// The wheel's exact length in bytes.
    pub size_bytes: u64,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// The names that scripts import.
    pub imports: Vec<String>,
    /// The platform that the wheel is compiled for. Its compiled files are left out.
    #[serde(default)]
    pub platform: Option<String>,
}

/// The pinned packages, sorted by name. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageList {
    #[serde(rename = "package")]
    packages: Vec<PackageEntry>,
}

impl PackageList {
    /// The built-in list.
    pub fn builtin() -> Result<Self, ManifestError> {
        Self::parse(BUILTIN)
    }

    /// Reads and checks a list.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let list: Self = toml::from_str(text)?;
        for (at, package) in list.packages.iter().enumerate() {
            let key = |field: &str| format!("package[{at}].{field}");
            // All three become part of pip's command line or of a path.
            check_name(&key("name"), &package.name)?;
            check_name(&key("version"), &package.version)?;
            if let Some(platform) = &package.platform {
                check_name(&key("platform"), platform)?;
            }
            check_text(&key("licence"), &package.licence)?;
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if !package.file.ends_with(".whl") || package.file.starts_with('.') || !package.file.chars().all(plain) {
                let problem = format!("`{}` is not a wheel's file name", package.file);
                return Err(ManifestError::Invalid { key: key("file"), problem });
            }
        }
        Ok(list)
    }

    /// Every package.
    pub fn packages(&self) -> &[PackageEntry] {
        &self.packages
    }

    /// Equal for lists of the same files, whatever else they say.
    pub fn digest(&self) -> Digest {
        let digests: Vec<&[u8]> = self.packages.iter().map(|package| package.sha256.as_bytes().as_slice()).collect();
        Digest::of_fields(&digests)
    }
}

/// Why the packages are unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// pip did not deliver them.
    #[error("cannot fetch the Python packages:{}\n{advice}, or place {} by hand in `{}`, or go without them: `--no-packages` (`EngineConfig::packages`)",
        failures.iter().map(|failure| format!("\n  {failure}")).collect::<String>(), files.join(", "), escaped(directory))]
    Unavailable {
        /// What was tried, and why it failed.
        failures: Vec<FetchFailure>,
        /// What to do first.
        advice: &'static str,
        /// The files that are missing.
        files: Vec<String>,
        /// The directory for them.
        directory: PathBuf,
    },
    /// pip did not deliver one of the user's own packages.
    #[error("cannot fetch {failure}; {advice}")]
    NotFetched {
        /// What was tried, and why it failed.
        failure: FetchFailure,
        /// What to do.
        advice: &'static str,
    },
    /// The fetch was cancelled.
    #[error("cancelled while fetching the Python packages")]
    Cancelled,
    /// A file in the cache differs from what was fetched.
    #[error("`{}` is not package `{name}`: {problem}; remove it, and it is fetched again", escaped(path), name = escaped(.name), problem = escaped_text(.problem))]
    Corrupt {
        /// The package.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A wheel is unusable.
    #[error("the wheel of `{name}` cannot be used: {source}", name = escaped(.name))]
    Wheel {
        /// The package.
        name: String,
        /// The reason.
        source: WheelFault,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Runtimes {
    /// The pinned packages.
    pub fn packages(&self) -> &PackageList {
        &self.packages
    }

    /// The path of a package's wheel, fetched or not.
    pub fn package_path(&self, package: &PackageEntry) -> PathBuf {
        self.cache().path().join("packages").join(&package.file)
    }

    /// Ensures that the wheels of all packages are present. Once they are, this never uses the network.
    ///
    /// If several processes call it at once, one fetches them and the others wait.
    pub fn fetch_packages(&self, progress: &dyn Progress) -> Result<Fetched, PackageError> {
        let wheels = self.wheels()?;
        if self.missing(&wheels)?.is_empty() {
            return Ok(Fetched::AlreadyThere);
        }
        let _lock = match self.cache().lock("packages", progress) {
            Err(CacheError::Cancelled { .. }) => return Err(PackageError::Cancelled),
            other => other?,
        };
        let missing = self.missing(&wheels)?;
        if missing.is_empty() {
            return Ok(Fetched::AlreadyThere);
        }
        wheels.remove_leftovers()?;
        self.fetcher().fetch_packages(&missing, &wheels, progress)?;
        tracing::info!(count = missing.len(), "fetched and verified packages");
        Ok(Fetched::Now)
    }

    /// The files of all fetched packages, by their paths below `site-packages`. Hashes what it reads.
    pub fn package_files(&self) -> Result<Vec<(String, Vec<u8>)>, PackageError> {
        let wheels = self.wheels()?;
        let mut files = Vec::new();
        for package in self.packages.packages() {
            let compiled = if package.platform.is_some() { Compiled::LeftOut } else { Compiled::Refused };
            let unusable = |source| PackageError::Wheel { name: package.name.clone(), source };
            files.extend(wheel_files(&self.read_wheel(&wheels, package)?, compiled).map_err(unusable)?);
        }
        Ok(files)
    }

    fn wheels(&self) -> Result<TrustedDir, CacheError> {
        self.cache().subdir("packages")
    }

    fn missing<'a>(&'a self, wheels: &TrustedDir) -> Result<Vec<&'a PackageEntry>, PackageError> {
        let mut missing = Vec::new();
        for package in self.packages.packages() {
            match wheels.open_file(&package.file)? {
                Some((_, bytes)) if bytes != package.size_bytes => {
                    let problem = format!("expected {} bytes, got {bytes}", package.size_bytes);
                    return Err(self.corrupt_package(package, problem));
                }
                Some(_) => {}
                None => missing.push(package),
            }
        }
        Ok(missing)
    }

    fn read_wheel(&self, wheels: &TrustedDir, package: &PackageEntry) -> Result<Vec<u8>, PackageError> {
        let Some((file, _)) = wheels.open_file(&package.file)? else {
            return Err(self.corrupt_package(package, "it has been removed".to_owned()));
        };
        let mut bytes = Vec::new();
        file.take(package.size_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| CacheError::io("read", &self.package_path(package), e))?;
        let got = Digest::of(&bytes);
        if got != package.sha256 {
            let problem = format!("expected sha256 {}, got {got}", package.sha256);
            return Err(self.corrupt_package(package, problem));
        }
        Ok(bytes)
    }

    fn corrupt_package(&self, package: &PackageEntry, problem: String) -> PackageError {
        PackageError::Corrupt { name: package.name.clone(), path: self.package_path(package), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_no_two_packages_share_a_name() {
        let list = PackageList::builtin().unwrap();
        assert!(list.packages().is_sorted_by_key(|package| package.name.to_lowercase()));
        let mut imports: Vec<_> = list.packages().iter().flat_map(|package| &package.imports).collect();
        let count = imports.len();
        imports.sort();
        imports.dedup();
        assert_eq!(imports.len(), count);
    }

    #[test]
    fn what_would_reach_a_command_line_or_a_path_is_checked() {
        let entry = |field: &str, value: &str| {
            let mut fields = vec![
                ("name", "six"),
                ("version", "1.0"),
                ("file", "six-1.0-py3-none-any.whl"),
                ("licence", "MIT"),
                ("platform", "linux"),
            ];
            for known in &mut fields {
                if known.0 == field {
                    known.1 = value;
                }
            }
            let lines: String = fields.iter().map(|(name, value)| format!("{name} = {value:?}\n")).collect();
            let rest = format!("sha256 = \"{}\"\nsize_bytes = 9\nimports = []\n", "0".repeat(64));
            PackageList::parse(&format!("[[package]]\n{lines}{rest}"))
        };
        assert!(entry("", "").is_ok());
        for (field, value) in [
            ("name", "--index-url"),
            ("version", "1 --pre"),
            ("platform", "-x"),
            ("file", "../six.whl"),
            ("file", ".whl"),
            ("file", "six.tar.gz"),
            ("licence", ""),
        ] {
            let error = entry(field, value).unwrap_err().to_string();
            assert!(error.contains(&format!("package[0].{field}")), "{error}");
        }
    }
}
