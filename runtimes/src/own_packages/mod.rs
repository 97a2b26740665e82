//! User packages: pure Python wheels in a directory of the user.

mod error;
mod limits;
mod metadata;
mod standard;

use std::io::Write;
use std::path::Path;

pub use error::OwnPackageError;
pub use limits::{MAX_OWN_PACKAGES, MAX_OWN_PACKAGES_BYTES, MAX_OWN_PACKAGES_FILES};
pub use metadata::{OwnPackage, normal};

use self::metadata::{describe, is_name};
use self::standard::is_standard;
use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::wheel_files::{MAX_WHEEL_BYTES, WheelFault, read_wheel};
use crate::{CacheError, Fetcher, Progress};

/// A directory of user packages.
#[derive(Debug)]
pub struct OwnPackages {
    dir: TrustedDir,
}

/// Running totals over packages.
#[derive(Debug, Default)]
struct Total {
    bytes: u64,
    files: usize,
}

impl Total {
    fn add(&mut self, name: &str, bytes: u64, files: usize) -> Result<(), OwnPackageError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.files = self.files.saturating_add(files);
        if self.bytes > MAX_OWN_PACKAGES_BYTES {
            return Err(OwnPackageError::TooLarge(name.to_owned()));
        }
        if self.files > MAX_OWN_PACKAGES_FILES {
            return Err(OwnPackageError::TooManyFiles(name.to_owned()));
        }
        Ok(())
    }
}

impl OwnPackages {
    /// Opens the directory, or creates it. It must belong to the user and be writable by no other user.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, Guarded::Packages)? })
    }

    /// Returns the packages, sorted by file name. Unpacks only the metadata, and holds one wheel in memory at a time.
    pub fn list(&self) -> Result<Vec<OwnPackage>, OwnPackageError> {
        self.file_names()?.iter().filter_map(|file| self.described(file).transpose()).collect()
    }

    /// Returns all files, sorted by path below `site-packages`.
    ///
    /// # Errors
    /// If they exceed [`MAX_OWN_PACKAGES_BYTES`] or [`MAX_OWN_PACKAGES_FILES`], whatever the wheels claim. The limits
    /// are checked before that much is unpacked.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, OwnPackageError> {
        let names = self.file_names()?.into_iter();
        let read = |file: String| Ok(self.read(&file)?.map(|bytes| (file, bytes)));
        unpack_wheels(names.filter_map(|file| read(file).transpose()))
    }

    /// Adds a wheel, replacing another version of the same package. `taken` lists the modules of other packages, each
    /// with its owner.
    pub fn add(&self, file: &str, bytes: &[u8], taken: &[(String, String)]) -> Result<OwnPackage, OwnPackageError> {
        let added = described_truly(file, bytes)?;
        let same = |other: &OwnPackage| normal(&other.name) == normal(&added.name);
        let (replaced, others): (Vec<_>, Vec<_>) = self.list()?.into_iter().partition(same);
        if others.len() >= MAX_OWN_PACKAGES {
            return Err(OwnPackageError::TooMany);
        }
        let mut total = Total::default();
        for other in &others {
            total.add(&added.name, other.unpacked_bytes, other.file_count)?;
        }
        total.add(&added.name, added.unpacked_bytes, added.file_count)?;
        check_modules(&added, &others, taken)?;
        let mut temp = self.dir.create()?;
        temp.write_all(bytes).map_err(|e| CacheError::io("write in", self.dir.path(), e))?;
        temp.persist(file)?;
        for old in replaced.iter().filter(|old| old.file != file) {
            self.dir.remove(&old.file)?;
        }
        Ok(added)
    }

    /// Downloads a pure Python wheel with pip. Returns its file name and bytes.
    pub fn download(
        &self,
        name: &str,
        version: &str,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<u8>), OwnPackageError> {
        for part in [name, version] {
            if !is_name(part) {
                return Err(OwnPackageError::FileName(part.to_owned()));
            }
        }
        Ok(Fetcher::default().fetch_wheel(name, version, &self.dir, progress)?)
    }

    /// Removes a package. Returns `false` if there is no package with this name. Wheels are not parsed, so an
    /// unreadable one can be removed.
    pub fn remove(&self, name: &str) -> Result<bool, OwnPackageError> {
        let mut any = false;
        for file in self.wheels()? {
            if file.split('-').next().is_some_and(|named| normal(named) == normal(name)) {
                any |= self.dir.remove(&file)?;
            }
        }
        Ok(any)
    }

    /// Returns the file names of the wheels, sorted.
    fn wheels(&self) -> Result<Vec<String>, CacheError> {
        let mut names = self.dir.names()?;
        names.retain(|name| name.ends_with(".whl") && !name.starts_with('.'));
        Ok(names)
    }

    /// Like [`wheels`](Self::wheels), but fails if there are too many.
    fn file_names(&self) -> Result<Vec<String>, OwnPackageError> {
        let names = self.wheels()?;
        if names.len() > MAX_OWN_PACKAGES { Err(OwnPackageError::TooMany) } else { Ok(names) }
    }

    /// Returns a wheel's bytes, or `None` if it has been removed.
    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, CacheError> {
        let Some((wheel, _)) = self.dir.open_file(file)? else { return Ok(None) };
        read_wheel(wheel).map(Some).map_err(|e| CacheError::io("read", &self.dir.path_of(file), e))
    }

    fn described(&self, file: &str) -> Result<Option<OwnPackage>, OwnPackageError> {
        let Some(bytes) = self.read(file)? else { return Ok(None) };
        Ok(Some(describe(file, &bytes)?.0))
    }
}

/// Describes a wheel after checking its claim about its size, which other code relies on.
fn described_truly(file: &str, bytes: &[u8]) -> Result<OwnPackage, OwnPackageError> {
    let (package, wheel) = describe(file, bytes)?;
    let unpacked = wheel.unpack(MAX_WHEEL_BYTES);
    let unpacked = unpacked.map_err(|source| OwnPackageError::Wheel { file: file.to_owned(), source })?;
    if bytes_of(&unpacked) != package.unpacked_bytes {
        let problem = "its list of files does not match the lengths of its files".to_owned();
        return Err(OwnPackageError::Metadata { file: file.to_owned(), problem });
    }
    Ok(package)
}

fn bytes_of(files: &[(String, Vec<u8>)]) -> u64 {
    files.iter().fold(0u64, |sum, (_, content)| sum.saturating_add(content.len() as u64))
}

/// Checks that no module of a package has the name of an existing one.
fn check_modules(added: &OwnPackage, others: &[OwnPackage], taken: &[(String, String)]) -> Result<(), OwnPackageError> {
    for module in &added.imports {
        let own = others.iter().find(|other| other.imports.contains(module)).map(|other| format!("`{}`", other.name));
        let given = taken.iter().find(|(name, _)| name == module).map(|(_, owner)| owner.clone());
        let standard = is_standard(module).then(|| "the standard library".to_owned());
        if let Some(owner) = standard.or(given).or(own) {
            return Err(OwnPackageError::Clash { name: added.name.clone(), module: module.clone(), owner });
        }
    }
    Ok(())
}

/// Checks wheels that are used together, like [`OwnPackages::add`].
pub(crate) fn check_wheels(
    wheels: &[(String, Vec<u8>)],
    taken: &[(String, String)],
) -> Result<Vec<OwnPackage>, OwnPackageError> {
    let (mut packages, mut total) = (Vec::new(), Total::default());
    for (file, bytes) in wheels {
        let package = described_truly(file, bytes)?;
        total.add(&package.name, package.unpacked_bytes, package.file_count)?;
        check_modules(&package, &packages, taken)?;
        packages.push(package);
    }
    Ok(packages)
}

/// Checks one wheel of an image by itself; [`check_wheels`] checks all together.
pub(crate) fn check_wheel(file: &str, bytes: &[u8]) -> Result<(), OwnPackageError> {
    described_truly(file, bytes).map(drop)
}

/// Returns the files of wheels, sorted by path below `site-packages`. Holds one wheel in memory at a time.
pub(crate) fn unpack_wheels(
    wheels: impl Iterator<Item = Result<(String, Vec<u8>), CacheError>>,
) -> Result<Vec<(String, Vec<u8>)>, OwnPackageError> {
    let (mut all, mut total) = (Vec::new(), Total::default());
    for wheel in wheels {
        let (file, bytes) = wheel?;
        let (package, wheel) = describe(&file, &bytes)?;
        total.add(&package.name, 0, package.file_count)?;
        let left = MAX_OWN_PACKAGES_BYTES.saturating_sub(total.bytes);
        let files = wheel.unpack(left.min(MAX_WHEEL_BYTES)).map_err(|source| match source {
            WheelFault::TooLarge if left < MAX_WHEEL_BYTES => OwnPackageError::TooLarge(package.name.clone()),
            source => OwnPackageError::Wheel { file: file.clone(), source },
        })?;
        total.add(&package.name, bytes_of(&files), 0)?;
        all.extend(files);
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests;
