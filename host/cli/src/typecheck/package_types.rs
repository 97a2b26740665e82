//! Types of the Python packages that users add: user packages, and the wheels of custom images.
//!
//! The checker sees only packages that declare their types
//! (<https://typing.python.org/en/latest/spec/distributing.html>). From the source of other packages, it would infer
//! types that are too narrow, and report correct scripts. The files are untrusted. They are copied to a private
//! directory, within limits, so that the checker follows no links and reads no other files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use glovebox::{Engine, UserPackages, escaped};
use glovebox_runtimes::is_standard_module;
use tempfile::TempDir;

use super::{
    CheckLimits,
    shared_reads::{ReadError, SharedReads},
};
use crate::engine::user_packages_dir;

/// Maximum length of a package's source file in bytes. The checker needs about 2 s for a file of this length. A package
/// with a longer file has no types.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Maximum total length of the source files of all packages in bytes. A package that would exceed it has no types.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// The file that declares that a package has types.
const MARKER: &str = "py.typed";

/// The end of the name of a package that contains only the types of another package.
const STUBS: &str = "-stubs";

/// The checker's own modules, which a package must not replace.
const CHECKERS_MODULES: [&str; 3] = ["_typeshed", "ty_extensions", "typing_extensions"];

/// The time after which packages that could not be read are read again. Reading can take seconds.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A file's path below `site-packages`, and its bytes.
type PackageFile = (String, Vec<u8>);

/// The types of a runtime's packages, or `None` if no package has types.
type RuntimeTypes = Option<Arc<PackageTypes>>;

/// The types of added packages, for each runtime. They are read when a runtime is first used. Packages that are added
/// later have no types.
#[derive(Debug)]
pub(super) struct AddedPackages {
    files: Arc<PackageFiles>,
    types: SharedReads<RuntimeTypes>,
}

impl AddedPackages {
    pub(super) fn new(engine: &Engine) -> Self {
        let user_packages = user_packages_dir().ok().filter(|dir| dir.is_dir());
        let files = PackageFiles { engine: engine.clone(), user_packages, common: Mutex::default() };
        Self { files: Arc::new(files), types: SharedReads::new(RETRY_AFTER) }
    }

    /// Returns the types of the packages that scripts can import in a runtime. Returns `None` if no package has types.
    /// If packages cannot be read, the reason is logged, and the result is incomplete: the engine then runs scripts
    /// without them.
    ///
    /// # Errors
    /// Fails if reading the packages exceeds the limits of the check.
    pub(super) fn types_for(&self, runtime: &str, limits: &CheckLimits<'_>) -> Result<RuntimeTypes, ReadError> {
        let (files, name) = (Arc::clone(&self.files), runtime.to_owned());
        self.types.get(runtime, is_present, move || files.types_for(&name), limits)
    }
}

/// Returns `false` if the directory with the types has been removed, for example with all temporary files. The checker
/// then fails.
fn is_present(types: &RuntimeTypes) -> bool {
    types.as_deref().is_none_or(|types| types.path().is_dir())
}

/// The files of packages.
#[derive(Debug)]
struct PackageFiles {
    engine: Engine,
    /// The directory of user packages, if it exists.
    user_packages: Option<PathBuf>,
    /// The types for all runtimes without wheels, after they have been read.
    common: Mutex<Option<RuntimeTypes>>,
}

impl PackageFiles {
    /// Returns the types of the packages in a runtime. Returns the types of the remaining packages as the error if some
    /// packages cannot be read.
    fn types_for(&self, runtime: &str) -> Result<RuntimeTypes, RuntimeTypes> {
        match self.image_files(runtime) {
            Ok(files) if files.is_empty() => self.common_types(),
            Ok(files) => self.write(&files),
            Err(error) => {
                log(&error);
                Err(None)
            }
        }
    }

    fn common_types(&self) -> Result<RuntimeTypes, RuntimeTypes> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(types) = common.as_ref().filter(|types| is_present(types)) {
            return Ok(types.clone());
        }
        let types = self.write(&[])?;
        *common = Some(types.clone());
        Ok(types)
    }

    fn image_files(&self, runtime: &str) -> anyhow::Result<Vec<PackageFile>> {
        let files = self.engine.image_packages(runtime);
        files.with_context(|| format!("cannot read the packages of the image `{}`", escaped(runtime)))
    }

    fn user_files(&self) -> anyhow::Result<Vec<PackageFile>> {
        let Some(dir) = &self.user_packages else { return Ok(Vec::new()) };
        Ok(UserPackages::open(dir)?.files()?)
    }

    /// Writes the types of user packages and of an image's packages.
    fn write(&self, image: &[PackageFile]) -> Result<RuntimeTypes, RuntimeTypes> {
        let (user, is_complete) = match self.user_files() {
            Ok(user) => (user, true),
            Err(error) => {
                log(&error);
                (Vec::new(), false)
            }
        };
        let types = PackageTypes::write(combined_packages(&user, image)).context("cannot write the types of packages");
        match types {
            Ok(types) if is_complete => Ok(types.map(Arc::new)),
            Ok(types) => Err(types.map(Arc::new)),
            Err(error) => {
                log(&error);
                Err(None)
            }
        }
    }
}

fn log(error: &anyhow::Error) {
    tracing::warn!(target: "glovebox", error = format!("{error:#}"), "types are checked without added packages");
}

/// A private directory with the source files of typed packages. Dropping it removes the directory.
#[derive(Debug)]
pub(super) struct PackageTypes {
    path: PathBuf,
    /// The locked directory. `systemd-tmpfiles`, which removes old temporary files, skips locked directories.
    _lock: fs::File,
    _dir: TempDir,
}

impl PackageTypes {
    /// Writes packages up to the maximum total length. Leaves out packages that cannot be written, for example because
    /// a path is too long. Returns `None` without packages.
    fn write(packages: BTreeMap<&str, Vec<&PackageFile>>) -> io::Result<Option<Self>> {
        if packages.is_empty() {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("glovebox-package-types-").tempdir()?;
        let lock = fs::File::open(dir.path())?;
        // Ignore errors: some file systems have no locks.
        let _ = lock.try_lock_shared();
        let mut left = MAX_TOTAL_BYTES;
        for (name, files) in packages {
            let bytes = files.iter().fold(0_usize, |sum, (_, content)| sum.saturating_add(content.len()));
            let Some(rest) = left.checked_sub(bytes) else { continue };
            left = rest;
            if write_files(dir.path(), &files).is_err() {
                let _ = fs::remove_dir_all(dir.path().join(name));
            }
        }
        Ok(Some(Self { path: dir.path().canonicalize()?, _lock: lock, _dir: dir }))
    }

    /// Returns the absolute path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn write_files(dir: &Path, files: &[&PackageFile]) -> io::Result<()> {
    for (path, content) in files {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}

/// Returns the source files of all packages that declare their types, by the name of the package. Modules and namespace
/// packages have no types. Leaves out packages with a file that is too long, because the checker would report the names
/// that are missing without this file.
fn typed_packages(files: &[PackageFile]) -> BTreeMap<&str, Vec<&PackageFile>> {
    let mut packages: BTreeMap<&str, Vec<&PackageFile>> = BTreeMap::new();
    for file in files {
        if let Some((name, rest)) = file.0.split_once('/')
            && is_package_name(name)
            && (is_source(rest) || rest == MARKER)
        {
            packages.entry(name).or_default().push(file);
        }
    }
    packages.retain(|name, files| {
        let is_marked = name.ends_with(STUBS) || files.iter().any(|(path, _)| *path == format!("{name}/{MARKER}"));
        is_marked && files.iter().all(|(_, content)| content.len() <= MAX_FILE_BYTES)
    });
    packages
}

/// Returns the typed packages of the user and of an image. As for scripts, all modules of the image take precedence,
/// including those without types.
fn combined_packages<'a>(user: &'a [PackageFile], image: &'a [PackageFile]) -> BTreeMap<&'a str, Vec<&'a PackageFile>> {
    let modules: BTreeSet<&str> = image.iter().map(|(path, _)| top_level_module(path)).collect();
    let mut packages = typed_packages(user);
    packages.retain(|name, _| !modules.contains(name.strip_suffix(STUBS).unwrap_or(name)));
    packages.extend(typed_packages(image));
    packages
}

fn top_level_module(path: &str) -> &str {
    let name = path.split('/').next().unwrap_or_default();
    name.strip_suffix(".py").unwrap_or(name)
}

fn is_source(path: &str) -> bool {
    let extension = Path::new(path).extension();
    extension.is_some_and(|extension| extension == "py" || extension == "pyi")
}

/// Returns `true` for the name of a package that scripts can import, or that contains the types of such a package. A
/// package with the name of a standard module would replace the types of that module in all scripts.
fn is_package_name(name: &str) -> bool {
    let module = name.strip_suffix(STUBS).unwrap_or(name);
    module.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !module.starts_with("__")
        && !CHECKERS_MODULES.contains(&module)
        && !is_standard_module(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, usize)]) -> Vec<PackageFile> {
        files.iter().map(|(path, length)| ((*path).to_owned(), vec![b' '; *length])).collect()
    }

    /// Returns the names of the packages that have types.
    fn names(files: &[PackageFile]) -> Vec<&str> {
        typed_packages(files).into_keys().collect()
    }

    #[test]
    fn only_packages_that_declare_their_types_have_types() {
        let files = files(&[
            ("_private/__init__.py", 1),
            ("_private/py.typed", 0),
            ("a-1.0.dist-info/METADATA", 1),
            ("a-1.0.dist-info/py.typed", 0),
            ("a/__init__.py", 1),
            ("a/b/c.pyi", 1),
            ("a/data.json", 1),
            ("a/py.typed", 0),
            ("b-stubs/__init__.pyi", 1),
            ("b/__init__.py", 1),
            ("google/cloud/py.typed", 0),
            ("module.py", 1),
            ("module.pyi", 1),
            ("py.typed", 0),
        ]);
        assert_eq!(names(&files), ["_private", "a", "b-stubs"]);
        let packages = typed_packages(&files);
        let paths: Vec<_> = packages["a"].iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a/__init__.py", "a/b/c.pyi", "a/py.typed"]);
    }

    #[test]
    fn packages_do_not_replace_what_the_checker_declares() {
        for name in [
            "__builtins__",
            "__main__",
            "_typeshed",
            "typing_extensions",
            "ty_extensions-stubs",
            "json",
            "collections-stubs",
            "1a",
            "é",
            "-stubs",
        ] {
            assert_eq!(names(&files(&[(&*format!("{name}/py.typed"), 0)])), [""; 0], "{name}");
        }
    }

    #[test]
    fn modules_of_an_image_take_precedence() {
        let user = files(&[("a/py.typed", 0), ("b-stubs/b.pyi", 1), ("c/py.typed", 0), ("d/py.typed", 0)]);
        let image = files(&[("a/__init__.py", 1), ("b/__init__.py", 1), ("c.py", 1), ("e/py.typed", 0)]);
        let names: Vec<_> = combined_packages(&user, &image).into_keys().collect();
        assert_eq!(names, ["d", "e"]);
        assert_eq!(combined_packages(&user, &[]).len(), 4);
    }

    #[test]
    fn long_files_are_not_checked() {
        for (length, count) in [(MAX_FILE_BYTES, 1), (MAX_FILE_BYTES + 1, 0)] {
            let typed = files(&[("a/__init__.py", 1), ("a/large.py", length), ("a/py.typed", 0)]);
            assert_eq!(names(&typed).len(), count, "{length}");
            // Other files do not count.
            let data = files(&[("a/data.bin", length), ("a/py.typed", 0)]);
            assert_eq!(names(&data), ["a"]);
        }
    }

    #[test]
    fn packages_are_written_up_to_the_total_length() {
        let count = MAX_TOTAL_BYTES / MAX_FILE_BYTES;
        let full: Vec<_> = (0..count).map(|at| format!("a/f{at:03}.py")).collect();
        let mut paths: Vec<_> = full.iter().map(|path| (path.as_str(), MAX_FILE_BYTES)).collect();
        paths.extend([("a/py.typed", 0), ("b/__init__.py", 1), ("b/py.typed", 0), ("c/py.typed", 0)]);
        let files = files(&paths);
        let types = PackageTypes::write(typed_packages(&files)).unwrap().unwrap();
        let is_written = ["a/f000.py", "b/py.typed", "c/py.typed"].map(|path| types.path().join(path).exists());
        assert_eq!(is_written, [true, false, true]);
    }

    #[test]
    fn directories_are_locked() {
        let files = files(&[("a/py.typed", 0)]);
        let types = PackageTypes::write(typed_packages(&files)).unwrap().unwrap();
        assert!(fs::File::open(types.path()).unwrap().try_lock().is_err());
    }

    #[test]
    fn packages_that_cannot_be_written_have_no_types() {
        let long = format!("a/{}.py", "x".repeat(300));
        let files = files(&[("a/__init__.py", 1), (long.as_str(), 1), ("a/py.typed", 0), ("b/py.typed", 0)]);
        let types = PackageTypes::write(typed_packages(&files)).unwrap().unwrap();
        assert_eq!(["a", "b"].map(|name| types.path().join(name).exists()), [false, true]);
        let path = types.path().to_owned();
        drop(types);
        assert!(!path.exists());
        assert!(PackageTypes::write(BTreeMap::new()).unwrap().is_none());
    }
}
