//! The list of pinned Python packages, and their wheels in the cache: downloading, verifying and reading.

use std::{io::Read, path::PathBuf};

use serde::Deserialize;

use crate::{
    CacheError, Digest, Fetched, ManifestError, PackageError, Progress, Runtimes,
    manifest::{check_name, check_text},
    trusted::TrustedDir,
    wheel_files::{Compiled, wheel_files},
};

const BUILTIN: &str = include_str!("../packages.toml");

/// This project's own modules, which are not wheels.
const EMBEDDED: [&str; 2] = ["requests", "sandbox_utils"];

/// A pinned package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageEntry {
    /// Name as the project writes it.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// File name of the wheel, as in the index.
    pub file: String,
    /// Pinned digest of the wheel.
    pub sha256: Digest,
    /// Exact length of the wheel in bytes.
    pub size_bytes: u64,
    /// Licence, as an SPDX expression.
    pub licence: String,
    /// Names that scripts import.
    pub imports: Vec<String>,
    /// Platform of a wheel with compiled files, which are left out.
    #[serde(default)]
    pub platform: Option<String>,
}

/// The pinned packages, sorted by name. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageList {
    #[serde(rename = "package")]
    packages: Vec<PackageEntry>,
}

impl PackageList {
    /// Parses the built-in list.
    pub fn builtin() -> Result<Self, ManifestError> {
        Self::parse(BUILTIN)
    }

    /// Parses and checks a list.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let list: Self = toml::from_str(text)?;
        for (at, package) in list.packages.iter().enumerate() {
            let key = |field: &str| format!("package[{at}].{field}");
            // All three become part of a path or of pip's command line.
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

    /// Returns all packages.
    pub fn packages(&self) -> &[PackageEntry] {
        &self.packages
    }

    /// Returns the modules that no other package may contain, each with its owner: those of these packages and of the
    /// sandbox itself.
    pub fn modules(&self) -> Vec<(String, String)> {
        let owned = |package: &PackageEntry| {
            let owner = format!("the bundled `{}`", package.name);
            let modules = package.imports.iter().map(|module| (module.clone(), owner.clone()));
            modules.collect::<Vec<_>>()
        };
        let own = EMBEDDED.map(|module| (module.to_owned(), "the sandbox itself".to_owned()));
        self.packages.iter().flat_map(owned).chain(own).collect()
    }

    /// Returns a digest of the wheels' digests. Lists of the same files have the same digest.
    pub fn digest(&self) -> Digest {
        let digests: Vec<&[u8]> = self.packages.iter().map(|package| package.sha256.as_bytes().as_slice()).collect();
        Digest::of_fields(&digests)
    }
}

impl Runtimes {
    /// Returns the pinned packages.
    pub fn packages(&self) -> &PackageList {
        &self.packages
    }

    /// Returns the path of a package's wheel, which may not exist yet.
    pub fn package_path(&self, package: &PackageEntry) -> PathBuf {
        self.cache().path().join("packages").join(&package.file)
    }

    /// Downloads missing wheels. If all wheels are present, it does not use the network.
    ///
    /// If several processes call this at once, one downloads them and the others wait.
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

    /// Returns the files of all downloaded packages, by path below `site-packages`. Verifies each wheel's digest.
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
