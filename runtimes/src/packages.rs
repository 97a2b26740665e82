//! The pinned Python packages in the cache: downloading, verifying and reading.

use std::io::Read;
use std::path::PathBuf;

use crate::trusted::TrustedDir;
use crate::wheel_files::{Compiled, wheel_files};
use crate::{CacheError, Digest, Fetched, PackageEntry, PackageError, PackageList, Progress, Runtimes};

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
