//! User packages: pure Python wheels that the user has added to a directory.

mod standard_modules;

use std::{io::Write, path::Path};

use glovebox_vfs::{escaped, escaped_text};

pub use self::standard_modules::is_standard;
use crate::{
    CacheError, Digest, Fetcher, PackageEntry, PackageError, Progress,
    fetch::DoneOnDrop,
    guard::GuardedDirectory,
    trusted_dir::TrustedDir,
    wheel_files::{CompiledCode, MAX_WHEEL_BYTES, Wheel, WheelFault, read_wheel},
};

/// A directory of user packages.
#[derive(Debug)]
pub struct UserPackages {
    dir: TrustedDir,
}

/// Running totals of the packages' bytes and files.
#[derive(Debug, Default)]
struct Total {
    bytes: u64,
    files: usize,
}

impl Total {
    fn add(&mut self, name: &str, bytes: u64, files: usize) -> Result<(), UserPackageError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.files = self.files.saturating_add(files);
        if self.bytes > MAX_USER_PACKAGES_BYTES {
            return Err(UserPackageError::TooLarge(name.to_owned()));
        }
        if self.files > MAX_USER_PACKAGES_FILES {
            return Err(UserPackageError::TooManyFiles(name.to_owned()));
        }
        Ok(())
    }
}

impl UserPackages {
    /// Opens or creates the directory. Fails if the directory does not belong to the user, or other users can write to
    /// it.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, GuardedDirectory::Packages)? })
    }

    /// Returns the packages, sorted by file name. Unpacks only metadata, and reads one wheel into memory at a time.
    ///
    /// # Errors
    /// Fails if the directory or a wheel cannot be read, or a wheel is invalid.
    pub fn list(&self) -> Result<Vec<UserPackage>, UserPackageError> {
        self.file_names()?.iter().filter_map(|file| self.read_description(file).transpose()).collect()
    }

    /// Returns the packages' files, sorted by path below `site-packages`.
    ///
    /// # Errors
    /// Fails if a wheel cannot be read or is damaged. Also fails if the files exceed [`MAX_USER_PACKAGES_BYTES`] or
    /// [`MAX_USER_PACKAGES_FILES`]. The limits are enforced while the wheels are unpacked, so a wheel that declares
    /// smaller sizes does not bypass them.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, UserPackageError> {
        let names = self.file_names()?.into_iter();
        let read = |file: String| Ok(self.read(&file)?.map(|bytes| (file, bytes)));
        unpack_wheels(names.filter_map(|file| read(file).transpose()))
    }

    /// Adds a wheel, replacing any version of the same package. `taken` lists the modules of other packages, each with
    /// its owner.
    ///
    /// # Errors
    /// Fails if the wheel is invalid, a limit on user packages would be exceeded, another package contains a module
    /// with the same name, or the wheel cannot be stored.
    pub fn add(&self, file: &str, bytes: &[u8], taken: &[(String, String)]) -> Result<UserPackage, UserPackageError> {
        let added = describe_verified(file, bytes)?;
        let same = |other: &UserPackage| normal(&other.name) == normal(&added.name);
        let (replaced, others): (Vec<_>, Vec<_>) = self.list()?.into_iter().partition(same);
        if others.len() >= MAX_USER_PACKAGES {
            return Err(UserPackageError::TooMany);
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
    ///
    /// # Errors
    /// [`UserPackageError::FileName`] if the name or the version contains invalid characters. Also fails if pip cannot
    /// download a pure Python wheel.
    pub fn download(
        &self,
        name: &str,
        version: &str,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<u8>), UserPackageError> {
        for part in [name, version] {
            if !is_name(part) {
                return Err(UserPackageError::FileName(part.to_owned()));
            }
        }
        let _done = DoneOnDrop(progress);
        Ok(Fetcher::default().fetch_wheel(name, version, &self.dir, progress)?)
    }

    /// Downloads a pinned wheel with pip. Returns its bytes.
    ///
    /// # Errors
    /// Fails like [`download`](Self::download), and with [`UserPackageError::Pin`] if the wheel differs from the pinned
    /// wheel.
    pub fn download_pinned(
        &self,
        package: &PackageEntry,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, UserPackageError> {
        let (file, bytes) = self.download(&package.name, &package.version, progress)?;
        let got = Digest::of(&bytes);
        if file != package.file || got != package.sha256 {
            return Err(UserPackageError::Pin { file, got, expected: package.file.clone(), pin: package.sha256 });
        }
        Ok(bytes)
    }

    /// Removes a package. Returns `false` if no package has this name. Does not parse the wheel, so that unreadable
    /// wheels can be removed.
    ///
    /// # Errors
    /// Fails if the directory cannot be read or the wheel cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, UserPackageError> {
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

    /// Like [`wheels`](Self::wheels), but fails if there are more than [`MAX_USER_PACKAGES`].
    fn file_names(&self) -> Result<Vec<String>, UserPackageError> {
        let names = self.wheels()?;
        if names.len() > MAX_USER_PACKAGES { Err(UserPackageError::TooMany) } else { Ok(names) }
    }

    /// Returns a wheel's bytes, or `None` if the wheel has been removed.
    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, CacheError> {
        let Some((wheel, _)) = self.dir.open_file(file)? else { return Ok(None) };
        read_wheel(wheel).map(Some).map_err(|e| CacheError::io("read", &self.dir.path_of(file), e))
    }

    fn read_description(&self, file: &str) -> Result<Option<UserPackage>, UserPackageError> {
        let Some(bytes) = self.read(file)? else { return Ok(None) };
        Ok(Some(describe(file, &bytes)?.0))
    }
}

/// Describes a wheel after checking that its declared unpacked size is correct. The limits on packages rely on this
/// size.
fn describe_verified(file: &str, bytes: &[u8]) -> Result<UserPackage, UserPackageError> {
    let (package, wheel) = describe(file, bytes)?;
    let unpacked = wheel.unpack(MAX_WHEEL_BYTES);
    let unpacked = unpacked.map_err(|source| UserPackageError::Wheel { file: file.to_owned(), source })?;
    if bytes_of(&unpacked) != package.unpacked_bytes {
        let problem = "its list of files does not match the lengths of its files".to_owned();
        return Err(UserPackageError::Metadata { file: file.to_owned(), problem });
    }
    Ok(package)
}

fn bytes_of(files: &[(String, Vec<u8>)]) -> u64 {
    files.iter().fold(0u64, |sum, (_, content)| sum.saturating_add(content.len() as u64))
}

/// Rejects a package that contains a module of another package or of the standard library, or the same stubs as another
/// package.
fn check_modules(
    added: &UserPackage,
    others: &[UserPackage],
    taken: &[(String, String)],
) -> Result<(), UserPackageError> {
    for module in &added.imports {
        let own = others.iter().find(|other| other.imports.contains(module)).map(|other| format!("`{}`", other.name));
        let given = taken.iter().find(|(name, _)| name == module).map(|(_, owner)| owner.clone());
        let standard = is_standard(module).then(|| "the standard library".to_owned());
        if let Some(owner) = standard.or(given).or(own) {
            return Err(UserPackageError::Clash { name: added.name.clone(), module: module.clone(), owner });
        }
    }
    for module in &added.stubs {
        if let Some(other) = others.iter().find(|other| other.stubs.contains(module)) {
            let (name, owner) = (added.name.clone(), format!("`{}`", other.name));
            return Err(UserPackageError::Clash { name, module: module.clone(), owner });
        }
    }
    Ok(())
}

/// Checks wheels that are used together. Applies the same rules as [`UserPackages::add`].
pub(crate) fn check_wheels(
    wheels: &[(String, Vec<u8>)],
    taken: &[(String, String)],
) -> Result<Vec<UserPackage>, UserPackageError> {
    let (mut packages, mut total) = (Vec::new(), Total::default());
    for (file, bytes) in wheels {
        let package = describe_verified(file, bytes)?;
        total.add(&package.name, package.unpacked_bytes, package.file_count)?;
        check_modules(&package, &packages, taken)?;
        packages.push(package);
    }
    Ok(packages)
}

/// Checks a single wheel of an image. [`check_wheels`] checks all wheels of the image together.
pub(crate) fn check_wheel(file: &str, bytes: &[u8]) -> Result<(), UserPackageError> {
    describe_verified(file, bytes).map(drop)
}

/// Unpacks wheels and returns their files, sorted by path below `site-packages`. Reads one wheel into memory at a time.
pub(crate) fn unpack_wheels(
    wheels: impl Iterator<Item = Result<(String, Vec<u8>), CacheError>>,
) -> Result<Vec<(String, Vec<u8>)>, UserPackageError> {
    let (mut all, mut total) = (Vec::new(), Total::default());
    for wheel in wheels {
        let (file, bytes) = wheel?;
        let (package, wheel) = describe(&file, &bytes)?;
        total.add(&package.name, 0, package.file_count)?;
        let left = MAX_USER_PACKAGES_BYTES.saturating_sub(total.bytes);
        let files = wheel.unpack(left.min(MAX_WHEEL_BYTES)).map_err(|source| match source {
            WheelFault::TooLarge if left < MAX_WHEEL_BYTES => UserPackageError::TooLarge(package.name.clone()),
            source => UserPackageError::Wheel { file: file.clone(), source },
        })?;
        total.add(&package.name, bytes_of(&files), 0)?;
        all.extend(files);
    }
    all.sort();
    Ok(all)
}

/// Maximum size of a wheel's metadata, in bytes. The largest metadata in a bundled wheel has 50 kB.
const MAX_METADATA_BYTES: u64 = 1 << 20;

/// The suffix of directories that contain only types. The types can belong to a package of another wheel.
const STUBS: &str = "-stubs";

/// Maximum length of a name or version in bytes.
const MAX_NAME_BYTES: usize = 100;

/// A package that the user installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPackage {
    /// The name of the package.
    pub name: String,
    /// The version of the package.
    pub version: String,
    /// The file name of the wheel.
    pub file: String,
    /// The digest of the wheel.
    pub sha256: Digest,
    /// The licence in the metadata. Empty if the metadata contains none.
    pub licence: String,
    /// The names of the top-level modules, as scripts import them.
    pub imports: Vec<String>,
    /// The names of the directories with types for other packages, such as `pandas-stubs`. Scripts cannot import them.
    pub stubs: Vec<String>,
    /// The requirements in the metadata, without the requirements of extras.
    pub requires: Vec<String>,
    /// The number of files that the wheel installs.
    pub file_count: usize,
    /// The unpacked size in bytes, as declared by the wheel. The declared size is verified when the wheel is added.
    pub unpacked_bytes: u64,
}

/// Reads a wheel's metadata without unpacking anything else.
fn describe<'a>(file: &str, bytes: &'a [u8]) -> Result<(UserPackage, Wheel<'a>), UserPackageError> {
    let bad_name = || UserPackageError::FileName(file.escape_debug().take(200).collect());
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
        return Err(UserPackageError::Platform(file.to_owned(), format!("{abi}-{platform}")));
    }
    if !python.split('.').any(|tag| matches!(tag, "py3" | "py312")) {
        return Err(bad_name());
    }
    let unusable = |source| UserPackageError::Wheel { file: file.to_owned(), source };
    let mut wheel = Wheel::open(bytes, CompiledCode::Refused).map_err(unusable)?;
    let wrong = |problem: &str| UserPackageError::Metadata { file: file.to_owned(), problem: problem.to_owned() };
    let metadata = wheel
        .paths()
        .find(|path| path.split_once('/').is_some_and(|(dir, file)| file == "METADATA" && dir.ends_with(".dist-info")));
    let metadata = metadata.ok_or_else(|| wrong("it has no `.dist-info/METADATA`"))?.to_owned();
    let metadata = wheel.read(&metadata, MAX_METADATA_BYTES).map_err(|source| match source {
        WheelFault::TooLarge => wrong("its metadata is larger than one megabyte"),
        source => unusable(source),
    })?;
    let metadata = String::from_utf8_lossy(metadata.as_deref().unwrap_or_default());
    let field = |key: &str| -> Vec<String> {
        let head = metadata.lines().map(str::trim_end).take_while(|line| !line.is_empty());
        let values = head.filter_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case(key)));
        values.map(|(_, value)| value.chars().filter(|c| !c.is_control()).take(200).collect()).collect()
    };
    let declared = field("Name").into_iter().next().unwrap_or_default();
    if normal(&declared) != normal(name) || field("Version").first().map(String::as_str) != Some(version) {
        return Err(wrong("the name or version in its metadata does not match its file name"));
    }
    let (imports, stubs) = (imports(wheel.paths()), stubs(wheel.paths()));
    if imports.is_empty() && stubs.is_empty() {
        return Err(wrong("it has no importable module"));
    }
    let licence = field("License-Expression").into_iter().chain(field("License")).next().unwrap_or_default();
    let requires = field("Requires-Dist").into_iter().filter(|needed| !needed.contains("extra ==")).collect();
    let package = UserPackage {
        name: declared,
        version: version.to_owned(),
        file: file.to_owned(),
        sha256: Digest::of(bytes),
        licence,
        imports,
        stubs,
        requires,
        file_count: wheel.file_count(),
        unpacked_bytes: wheel.claimed_bytes(),
    };
    Ok((package, wheel))
}

/// Returns the names of top-level modules and packages.
fn imports<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = paths
        .filter_map(|path| match path.split_once('/') {
            Some((top, rest)) => rest.ends_with(".py").then_some(top),
            None => path.strip_suffix(".py"),
        })
        .filter(|name| is_module(name))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the names of the directories with types for a package, such as `pandas-stubs`.
fn stubs<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let with_types = paths.filter(|path| path.ends_with(".pyi")).filter_map(|path| path.split_once('/'));
    let named = with_types.filter(|(top, _)| top.strip_suffix(STUBS).is_some_and(is_module));
    let mut names: Vec<String> = named.map(|(top, _)| top.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn is_module(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the normalized form of a package's name.
pub fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Returns `true` if the text can be used safely in file names and command lines.
fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
    let starts_well = part.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    starts_well && part.len() <= MAX_NAME_BYTES && part.chars().all(plain)
}

/// Errors from adding, reading or removing a user package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserPackageError {
    /// The text is not the file name of a wheel, a valid package name or a valid version.
    #[error("`{name}` is not a wheel file name; use the form `NAME-VERSION-py3-none-any.whl`", name = escaped(.0))]
    FileName(String),
    /// The wheel is for a specific platform.
    #[error(
        "`{name}` is compiled for one platform (`{other}`); the sandbox runs only pure Python: use a version that ends in `-none-any.whl`", name = escaped(.0), other = escaped(.1)
    )]
    Platform(String, String),
    /// The wheel is invalid.
    #[error("`{file}` cannot be used: {source}", file = escaped(.file))]
    Wheel {
        /// The name of the file.
        file: String,
        /// The defect in the wheel.
        source: WheelFault,
    },
    /// The wheel's metadata is missing, is invalid, or belongs to another package.
    #[error("`{file}` cannot be used: {problem}", file = escaped(.file), problem = escaped_text(.problem))]
    Metadata {
        /// The name of the file.
        file: String,
        /// The defect, such as `it has no importable module`.
        problem: String,
    },
    /// A module of the package has the same name as an existing module.
    #[error("cannot add `{name}`: {owner} also contains a module `{module}`; use a package without this module", name = escaped(.name), module = escaped(.module), owner = escaped_text(.owner))]
    Clash {
        /// The name of the package.
        name: String,
        /// The name of the module.
        module: String,
        /// The owner of the existing module.
        owner: String,
    },
    /// There are already [`MAX_USER_PACKAGES`] packages.
    #[error("you can add at most {MAX_USER_PACKAGES} packages; remove one with `glovebox packages remove NAME`")]
    TooMany,
    /// The unpacked packages would exceed [`MAX_USER_PACKAGES_BYTES`].
    #[error(
        "`{name}` raises the unpacked size of your packages above {MAX_USER_PACKAGES_BYTES} bytes; remove packages with \
         `glovebox packages remove NAME` (`glovebox packages list --json` shows their sizes)",
        name = escaped(.0)
    )]
    TooLarge(String),
    /// The packages would exceed [`MAX_USER_PACKAGES_FILES`].
    #[error(
        "`{name}` raises the number of files in your packages above {MAX_USER_PACKAGES_FILES}; remove packages with \
         `glovebox packages remove NAME` (`glovebox packages list --json` shows their file counts)",
        name = escaped(.0)
    )]
    TooManyFiles(String),
    /// The wheel in the package index differs from the pinned wheel.
    #[error(
        "the package index has `{file}` with sha256 {got}, but `{expected}` with sha256 {pin} is pinned; to \
         use `{file}` anyway, download the file and add it",
        file = escaped(.file), expected = escaped(.expected)
    )]
    Pin {
        /// The name of the downloaded file.
        file: String,
        /// The digest of the downloaded file.
        got: Digest,
        /// The name of the pinned file.
        expected: String,
        /// The pinned digest.
        pin: Digest,
    },
    /// The package does not exist, or pip failed.
    #[error(transparent)]
    Fetch(#[from] PackageError),
    /// The directory of user packages cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}

/// Maximum number of user packages.
pub const MAX_USER_PACKAGES: usize = 128;

/// Maximum total unpacked size of all user packages, in bytes: the size of four wheels of maximum size. The files stay
/// in memory after the first import.
pub const MAX_USER_PACKAGES_BYTES: u64 = 4 * MAX_WHEEL_BYTES;

/// Maximum total number of files in user packages.
pub const MAX_USER_PACKAGES_FILES: usize = 16_384;

#[cfg(test)]
mod tests;
