//! The list of pinned Python packages. Downloads, verifies and reads their wheels. Also reads and writes bundles: zip
//! files of pinned files, for use without a network.

use std::{
    collections::BTreeSet,
    fs::{File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tempfile::NamedTempFile;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::{
    CacheError, Digest, FetchOutcome, ManifestError, PackageError, Progress, RuntimeEntry, RuntimeError, Runtimes,
    ToolEntry,
    entries::PinnedContent,
    fetch::{DoneOnDrop, FatalFetchError},
    manifest::{check_name, check_text},
    trusted_dir::TrustedDir,
    user_packages::normal,
    wheel_files::{self, CompiledCode, ExtractError, wheel_files},
};

const BUILTIN: &str = include_str!("../packages.toml");
const CATALOGUE: &str = include_str!("../catalogue.toml");

/// Modules that are part of this project and have no wheel.
const EMBEDDED: [&str; 2] = ["requests", "sandbox_utils"];

/// A pinned package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageEntry {
    /// The name of the package, as its project spells it.
    pub name: String,
    /// The version of the package.
    pub version: String,
    /// The file name of the wheel in the package index.
    pub file: String,
    /// The pinned digest of the wheel.
    pub sha256: Digest,
    /// The exact length of the wheel in bytes.
    pub size_bytes: u64,
    /// The licence, as an SPDX expression.
    pub licence: String,
    /// The names that scripts import.
    pub imports: Vec<String>,
    /// The platform of the wheel's compiled files. Guests do not see the compiled files.
    #[serde(default)]
    pub platform: Option<String>,
    /// The names of the listed packages that this package requires.
    #[serde(default)]
    pub requires: Vec<String>,
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
    ///
    /// # Errors
    /// Fails only if the built-in list is invalid, which is a bug.
    pub fn builtin() -> Result<Self, ManifestError> {
        Self::parse(BUILTIN)
    }

    /// Parses the catalogue: packages that users can add by name.
    ///
    /// # Errors
    /// Fails only if the catalogue is invalid, which is a bug.
    pub fn catalogue() -> Result<Self, ManifestError> {
        Self::parse(CATALOGUE)
    }

    /// Returns the package with this name. Ignores case, and treats `-`, `_` and `.` as equal.
    pub fn find(&self, name: &str) -> Option<&PackageEntry> {
        self.packages.iter().find(|package| normal(&package.name) == normal(name))
    }

    /// Returns a package and all listed packages that it requires, directly or indirectly. Requirements precede their
    /// dependents.
    pub fn with_requirements<'a>(&'a self, package: &'a PackageEntry) -> Vec<&'a PackageEntry> {
        let mut found = Vec::new();
        self.require(package, &mut Vec::new(), &mut found);
        found
    }

    fn require<'a>(&'a self, package: &'a PackageEntry, above: &mut Vec<&'a str>, found: &mut Vec<&'a PackageEntry>) {
        if above.contains(&package.name.as_str()) || found.contains(&package) {
            return;
        }
        above.push(&package.name);
        for required in package.requires.iter().filter_map(|name| self.find(name)) {
            self.require(required, above, found);
        }
        above.pop();
        found.push(package);
    }

    /// Parses and checks a list.
    ///
    /// # Errors
    /// [`ManifestError::Syntax`] or [`ManifestError::Invalid`], which names the key.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let list: Self = toml::from_str(text)?;
        for (at, package) in list.packages.iter().enumerate() {
            let key = |field: &str| format!("package[{at}].{field}");
            // The name, version and platform are used in paths or passed to pip.
            check_name(&key("name"), &package.name)?;
            check_name(&key("version"), &package.version)?;
            if let Some(platform) = &package.platform {
                check_name(&key("platform"), platform)?;
            }
            check_text(&key("licence"), &package.licence)?;
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if !package.file.ends_with(".whl") || package.file.starts_with('.') || !package.file.chars().all(plain) {
                let problem = format!("`{}` is not a wheel file name", package.file);
                return Err(ManifestError::Invalid { key: key("file"), problem });
            }
        }
        Ok(list)
    }

    /// Returns all packages.
    pub fn packages(&self) -> &[PackageEntry] {
        &self.packages
    }

    /// Returns the names of the bundled modules. Each name has an owner: a listed package or the sandbox itself. Other
    /// packages must not contain modules with these names.
    pub fn modules(&self) -> Vec<(String, String)> {
        let owned = |package: &PackageEntry| {
            let owner = format!("the bundled `{}`", package.name);
            let modules = package.imports.iter().map(|module| (module.clone(), owner.clone()));
            modules.collect::<Vec<_>>()
        };
        let own = EMBEDDED.map(|module| (module.to_owned(), "the sandbox itself".to_owned()));
        self.packages.iter().flat_map(owned).chain(own).collect()
    }

    /// Returns a digest of the wheels' digests. Two lists with the same wheels have the same digest.
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

    /// Returns the path of a package's wheel, which might not exist yet.
    pub fn package_path(&self, package: &PackageEntry) -> PathBuf {
        self.cache().path().join("packages").join(&package.file)
    }

    /// Downloads missing wheels. Does not use the network if all wheels are present.
    ///
    /// If several processes call this method concurrently, one downloads the wheels and the others wait.
    ///
    /// # Errors
    /// [`PackageError::Unavailable`] if pip cannot download the packages. [`PackageError::Cancelled`] if `progress` is
    /// cancelled. Also fails if the cache cannot be used.
    pub fn fetch_packages(&self, progress: &dyn Progress) -> Result<FetchOutcome, PackageError> {
        let wheels = self.wheels()?;
        if self.missing(&wheels)?.is_empty() {
            return Ok(FetchOutcome::AlreadyThere);
        }
        let _done = DoneOnDrop(progress);
        let _lock = self.cache().lock("packages", progress).map_err(FatalFetchError::from)?;
        let missing = self.missing(&wheels)?;
        if missing.is_empty() {
            return Ok(FetchOutcome::AlreadyThere);
        }
        wheels.remove_leftovers()?;
        self.fetcher.fetch_packages(&missing, &wheels, progress)?;
        tracing::info!(count = missing.len(), "fetched and verified packages");
        Ok(FetchOutcome::Now)
    }

    /// Verifies the wheels of all packages and returns their files, by path below `site-packages`.
    ///
    /// # Errors
    /// [`PackageError::Corrupt`] if a wheel is missing, or its length or digest differs. [`PackageError::Wheel`] if a
    /// wheel is invalid.
    pub fn package_files(&self) -> Result<Vec<(String, Vec<u8>)>, PackageError> {
        let wheels = self.wheels()?;
        let mut files = Vec::new();
        for package in self.packages.packages() {
            let compiled = if package.platform.is_some() { CompiledCode::LeftOut } else { CompiledCode::Refused };
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

/// A zip file that contains pinned files under their names in the cache, and is searched before the network is used.
/// Its contents are verified like a download: each file must match its pin.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(pub(crate) PathBuf);

impl Bundle {
    /// Returns `true` if the bundle contains all of these files. Returns `false` for an unreadable bundle.
    pub(crate) fn has(&self, files: &[PinnedContent]) -> bool {
        let archive = File::open(&self.0).map_err(Into::into).and_then(ZipArchive::new);
        archive.is_ok_and(|archive| files.iter().all(|pinned| archive.index_for_name(&pinned.file_name).is_some()))
    }

    /// Copies a file from the bundle into the cache and verifies it.
    pub(crate) fn take(
        &self,
        pinned: &PinnedContent,
        into: &TrustedDir,
        progress: &dyn Progress,
    ) -> Result<(), ExtractError> {
        wheel_files::take_from(&self.0, &pinned.file_name, pinned, into, progress)
    }
}

impl PackageEntry {
    pub(crate) fn wheel(&self) -> PinnedContent {
        PinnedContent { file_name: self.file.clone(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}

impl ToolEntry {
    pub(crate) fn module(&self) -> PinnedContent {
        PinnedContent { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}

/// Maximum compression level: a bundle is written once and read many times.
const COMPRESSION_LEVEL: i64 = 9;

impl Runtimes {
    /// Writes a bundle with the files of these runtimes and tools, and of all packages if `with_packages`. Downloads
    /// missing files. Returns the size in bytes. Bundles of the same files are identical.
    ///
    /// # Errors
    /// Fails if a file cannot be downloaded or does not match its pin. Returns [`RuntimeError::Package`] if the file
    /// belongs to a package, and [`RuntimeError::Bundle`] if the bundle cannot be written.
    pub fn write_bundle(
        &self,
        runtimes: &[RuntimeEntry],
        tools: &[ToolEntry],
        with_packages: bool,
        path: &Path,
        progress: &dyn Progress,
    ) -> Result<u64, RuntimeError> {
        let failed = |source: io::Error| RuntimeError::Bundle { path: path.to_owned(), source };
        for runtime in runtimes {
            self.fetch(runtime, progress)?;
            self.verify(runtime)?;
        }
        for tool in tools {
            self.fetch_tool(tool, progress)?;
            self.verify_tool(tool)?;
        }
        let packages = if with_packages { self.packages.packages() } else { &[] };
        if with_packages {
            self.fetch_packages(progress).map_err(|error| RuntimeError::Package(Box::new(error)))?;
        }
        let binaries = runtimes.iter().flat_map(|runtime| [Some(runtime.binary()), runtime.library()]).flatten();
        let binaries = binaries.chain(tools.iter().map(ToolEntry::module)).map(|pinned| pinned.file_name);
        let wheels = packages.iter().map(|package| package.file.clone());
        let _done = DoneOnDrop(progress);
        progress.message("writing the bundle");
        let mut temp = temp_bundle(path).map_err(failed)?;
        let mut archive = ZipWriter::new(temp.as_file_mut());
        // Write each file once: a runtime and its images have the same files.
        let mut written = BTreeSet::new();
        for (directory, name) in binaries.map(|name| ("binaries", name)).chain(wheels.map(|name| ("packages", name))) {
            if !written.insert(name.clone()) {
                continue;
            }
            let opened = self.cache().subdir(directory)?.open_file(&name)?;
            let Some((file, _)) = opened else {
                return Err(RuntimeError::NoFile { path: self.cache().path().join(directory).join(&name) });
            };
            add(&mut archive, &name, file).map_err(failed)?;
        }
        archive.finish().map_err(|error| failed(error.into()))?;
        persist_bundle(temp, path).map_err(failed)
    }
}

/// Creates an empty bundle with a temporary name.
pub(crate) fn temp_bundle(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Bundles are shared, so only the umask restricts access to the file.
    tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(directory)
}

/// Renames a complete bundle to its final path. Returns its size in bytes.
pub(crate) fn persist_bundle(temp: NamedTempFile, path: &Path) -> io::Result<u64> {
    Ok(temp.persist(path)?.metadata()?.len())
}

fn add(archive: &mut ZipWriter<&mut File>, name: &str, mut file: File) -> io::Result<()> {
    // Wheels and zip files are already compressed.
    let is_compressed = Path::new(name).extension().is_some_and(|extension| extension == "whl" || extension == "zip");
    let method = if is_compressed { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let level = (!is_compressed).then_some(COMPRESSION_LEVEL);
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .compression_level(level)
        .last_modified_time(zip::DateTime::default())
        .unix_permissions(0o644);
    archive.start_file(name, options)?;
    io::copy(&mut file, archive).map(drop)
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
    fn catalogue_adds_new_modules_with_all_their_requirements() {
        let (catalogue, bundled) = (PackageList::catalogue().unwrap(), PackageList::builtin().unwrap());
        assert!(catalogue.packages().is_sorted_by_key(|package| package.name.to_lowercase()));
        let mut modules: Vec<_> = bundled.modules().into_iter().map(|(module, _)| module).collect();
        for package in catalogue.packages() {
            assert!(package.file.ends_with("-none-any.whl") && package.platform.is_none(), "{}", package.name);
            for module in &package.imports {
                assert!(!modules.contains(module), "{module}");
                modules.push(module.clone());
            }
            for name in &package.requires {
                let required = catalogue.find(name).map(|found| &found.name);
                assert_eq!(required, Some(name), "{} requires it", package.name);
            }
        }
    }

    #[test]
    fn requirements_come_before_the_packages_that_need_them() {
        let entry = |name: &str, requires: &str| {
            format!(
                "[[package]]\nname = {name:?}\nversion = \"1\"\nfile = \"{name}-1-py3-none-any.whl\"\nsha256 = \"{}\"\n\
                 size_bytes = 1\nlicence = \"MIT\"\nimports = []\nrequires = [{requires}]\n",
                "0".repeat(64)
            )
        };
        let text = [entry("a", "'b', 'c'"), entry("B", "'c', 'a'"), entry("c", ""), entry("other", "")].concat();
        let list = PackageList::parse(&text).unwrap();
        let names = |name: &str| {
            let found = list.with_requirements(list.find(name).unwrap());
            found.into_iter().map(|package| package.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names("A"), ["c", "B", "a"], "two packages that require each other");
        assert_eq!(names("c"), ["c"]);
        assert_eq!(list.find("O_ther"), None);
    }

    #[test]
    fn package_fields_for_commands_and_paths_are_checked() {
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
