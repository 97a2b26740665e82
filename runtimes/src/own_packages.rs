//! The user's own packages: wheels of pure Python in a directory of the user.

use glovebox_vfs::{escaped, escaped_text};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::wheel_files::{Compiled, MAX_WHEEL_BYTES, Wheel, WheelFault};
use crate::{CacheError, Digest, Fetcher, PackageError, Progress};

/// The maximum number of own packages.
pub const MAX_OWN_PACKAGES: usize = 128;

/// The maximum size of all own packages together, unpacked: they are held in memory from the first import on. Four
/// wheels of the maximum size.
pub const MAX_OWN_PACKAGES_BYTES: u64 = 4 * MAX_WHEEL_BYTES;

/// The maximum number of their files together.
pub const MAX_OWN_PACKAGES_FILES: usize = 16_384;

/// The maximum size of a wheel's metadata: the longest of the bundled ones has 50 KB.
const MAX_METADATA_BYTES: u64 = 1 << 20;

/// The maximum length of a name, a version or an import.
const MAX_NAME_BYTES: usize = 100;

/// Modules of the standard library, which no package may shadow or imitate.
const STANDARD: &str = "\
    abc aifc antigravity argparse array ast asyncio atexit audioop base64 bdb binascii bisect builtins bz2 cProfile calendar cgi \
    cgitb chunk cmath cmd code codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy \
    copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings ensurepip enum errno \
    faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib \
    grp gzip hashlib heapq hmac html http idlelib imaplib imghdr importlib inspect io ipaddress itertools json keyword lib2to3 \
    linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc \
    nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes \
    pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat \
    queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil \
    signal site smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string \
    stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this \
    threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing \
    unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp \
    zipfile zipimport zlib zoneinfo";

/// One of the user's own packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The wheel's file name.
    pub file: String,
    /// The wheel's digest.
    pub sha256: Digest,
    /// Its licence, as its metadata says; empty if it says nothing.
    pub licence: String,
    /// The names that scripts import.
    pub imports: Vec<String>,
    /// Its requirements, as its metadata says, without those of extras.
    pub requires: Vec<String>,
    /// Its number of files.
    pub file_count: usize,
    /// Its unpacked size in bytes, as the wheel claims. Unpacking enforces it.
    pub unpacked_bytes: u64,
}

/// Why one of the user's own packages could not be added, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnPackageError {
    /// The file's name is not that of a wheel.
    #[error("`{name}` is not a wheel's file name; it must be like `NAME-VERSION-py3-none-any.whl`", name = escaped(.0))]
    FileName(String),
    /// The wheel is for a specific platform.
    #[error(
        "`{name}` is compiled for one platform (`{other}`); the sandbox runs only pure Python: look for a version of it that ends in `-none-any.whl`", name = escaped(.0), other = escaped(.1)
    )]
    Platform(String, String),
    /// The wheel is unusable.
    #[error("`{file}` cannot be used: {source}", file = escaped(.file))]
    Wheel {
        /// The file.
        file: String,
        /// The reason.
        source: WheelFault,
    },
    /// The wheel's metadata is missing or not its own.
    #[error("`{file}` cannot be used: {problem}", file = escaped(.file), problem = escaped_text(.problem))]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// One of its modules has the name of an existing one.
    #[error("`{name}` has a module `{module}`, and so has {owner}; it cannot be added beside it", name = escaped(.name), module = escaped(.module), owner = escaped_text(.owner))]
    Clash {
        /// The package.
        name: String,
        /// The module.
        module: String,
        /// The owner of the module's name.
        owner: String,
    },
    /// There are too many packages.
    #[error(
        "you already have {MAX_OWN_PACKAGES} packages of your own; remove one with `glovebox packages remove NAME`"
    )]
    TooMany,
    /// The packages are too large together.
    #[error(
        "packages of your own may take {MAX_OWN_PACKAGES_BYTES} bytes together, unpacked, and with `{name}` they take more; remove some with \
         `glovebox packages remove NAME` (`glovebox packages list --json` says what each takes)",
        name = escaped(.0)
    )]
    TooLarge(String),
    /// They have too many files together.
    #[error(
        "packages of your own may have {MAX_OWN_PACKAGES_FILES} files together, and with `{name}` they have more; remove some with \
         `glovebox packages remove NAME` (`glovebox packages list --json` says how many each has)",
        name = escaped(.0)
    )]
    TooManyFiles(String),
    /// The package does not exist, or pip failed.
    #[error(transparent)]
    Fetch(#[from] PackageError),
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}

/// The packages in a directory.
#[derive(Debug)]
pub struct OwnPackages {
    dir: TrustedDir,
}

/// The running total of packages.
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
    /// Opens the directory, creating it if it is missing. It must belong to the user and be writable by nobody else.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, Guarded::Packages)? })
    }

    /// The packages, by file name. Of each wheel only the metadata is unpacked, and one wheel is in memory at a time.
    pub fn list(&self) -> Result<Vec<OwnPackage>, OwnPackageError> {
        self.file_names()?.iter().filter_map(|file| self.described(file).transpose()).collect()
    }

    /// All files, by their paths below `site-packages`, sorted.
    ///
    /// # Errors
    /// If they exceed [`MAX_OWN_PACKAGES_BYTES`] or [`MAX_OWN_PACKAGES_FILES`], whatever the wheels claim: before that
    /// much is unpacked.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, OwnPackageError> {
        let (mut all, mut total) = (Vec::new(), Total::default());
        for file in self.file_names()? {
            let Some(bytes) = self.read(&file)? else { continue };
            let (package, wheel) = describe(&file, &bytes)?;
            total.add(&package.name, 0, package.file_count)?;
            let left = MAX_OWN_PACKAGES_BYTES.saturating_sub(total.bytes);
            let files = wheel.unpack(left.min(MAX_WHEEL_BYTES)).map_err(|source| match source {
                WheelFault::TooLarge if left < MAX_WHEEL_BYTES => OwnPackageError::TooLarge(package.name.clone()),
                source => OwnPackageError::Wheel { file: file.clone(), source },
            })?;
            let bytes = files.iter().fold(0u64, |sum, (_, content)| sum.saturating_add(content.len() as u64));
            total.add(&package.name, bytes, 0)?;
            all.extend(files);
        }
        all.sort();
        Ok(all)
    }

    /// Adds a wheel, replacing another version of the same package. `taken` are the modules of other packages, each
    /// with its owner.
    pub fn add(&self, file: &str, bytes: &[u8], taken: &[(String, String)]) -> Result<OwnPackage, OwnPackageError> {
        let (added, wheel) = describe(file, bytes)?;
        // Its claim is checked before others rely on it.
        let unpacked = wheel.unpack(MAX_WHEEL_BYTES);
        let unpacked = unpacked.map_err(|source| OwnPackageError::Wheel { file: file.to_owned(), source })?;
        let unpacked_bytes = unpacked.iter().fold(0u64, |sum, (_, content)| sum.saturating_add(content.len() as u64));
        drop(unpacked);
        if unpacked_bytes != added.unpacked_bytes {
            let problem = "its list of files has other lengths than its files".to_owned();
            return Err(OwnPackageError::Metadata { file: file.to_owned(), problem });
        }
        let same = |other: &OwnPackage| normal(&other.name) == normal(&added.name);
        let (replaced, others): (Vec<_>, Vec<_>) = self.list()?.into_iter().partition(same);
        if others.len() >= MAX_OWN_PACKAGES {
            return Err(OwnPackageError::TooMany);
        }
        let mut total = Total::default();
        for other in &others {
            total.add(&added.name, other.unpacked_bytes, other.file_count)?;
        }
        total.add(&added.name, unpacked_bytes, added.file_count)?;
        for module in &added.imports {
            let own =
                others.iter().find(|other| other.imports.contains(module)).map(|other| format!("`{}`", other.name));
            let given = taken.iter().find(|(name, _)| name == module).map(|(_, owner)| owner.clone());
            let standard = STANDARD.split(' ').any(|name| name == module) || module.starts_with('_');
            let standard = standard.then(|| "the standard library".to_owned());
            if let Some(owner) = standard.or(given).or(own) {
                return Err(OwnPackageError::Clash { name: added.name, module: module.clone(), owner });
            }
        }
        let mut temp = self.dir.create()?;
        temp.write_all(bytes).map_err(|e| CacheError::io("write in", self.dir.path(), e))?;
        temp.persist(file)?;
        for old in replaced.iter().filter(|old| old.file != file) {
            self.dir.remove(&old.file)?;
        }
        Ok(added)
    }

    /// Downloads a pure Python wheel with pip: its file name and bytes.
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

    /// Removes a package; `false` if there is none of this name. Reads no wheel, so that an unreadable one can be
    /// removed.
    pub fn remove(&self, name: &str) -> Result<bool, OwnPackageError> {
        let mut any = false;
        for file in self.wheels()? {
            if file.split('-').next().is_some_and(|named| normal(named) == normal(name)) {
                any |= self.dir.remove(&file)?;
            }
        }
        Ok(any)
    }

    /// The wheels' file names, sorted.
    fn wheels(&self) -> Result<Vec<String>, CacheError> {
        let mut names = self.dir.names()?;
        names.retain(|name| name.ends_with(".whl") && !name.starts_with('.'));
        Ok(names)
    }

    /// Like [`wheels`](Self::wheels), but an error if there are too many.
    fn file_names(&self) -> Result<Vec<String>, OwnPackageError> {
        let names = self.wheels()?;
        if names.len() > MAX_OWN_PACKAGES { Err(OwnPackageError::TooMany) } else { Ok(names) }
    }

    /// A wheel's bytes; `None` if it has been removed.
    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, CacheError> {
        let Some((wheel, _)) = self.dir.open_file(file)? else { return Ok(None) };
        read_wheel(wheel).map(Some).map_err(|e| CacheError::io("read", &self.dir.path_of(file), e))
    }

    fn described(&self, file: &str) -> Result<Option<OwnPackage>, OwnPackageError> {
        let Some(bytes) = self.read(file)? else { return Ok(None) };
        Ok(Some(describe(file, &bytes)?.0))
    }
}

/// Reads a file that may be a wheel, at most one byte more than the maximum.
pub fn read_wheel(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_WHEEL_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a wheel's metadata, unpacking nothing else.
fn describe<'a>(file: &str, bytes: &'a [u8]) -> Result<(OwnPackage, Wheel<'a>), OwnPackageError> {
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
        return Err(wrong("its metadata has another name or version than its file"));
    }
    let imports = imports(wheel.paths());
    if imports.is_empty() {
        return Err(wrong("it has no module that could be imported"));
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

/// The top-level modules and packages.
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

/// The normalised form of a package's name.
pub fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Whether a text may be part of a file name and of a command line.
fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
    let starts_well = part.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    starts_well && part.len() <= MAX_NAME_BYTES && part.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn wheel(name: &str, version: &str, modules: &[&str]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let metadata = format!(
            "Name: {name}\nVersion: {version}\nLicense: MIT\nRequires-Dist: six\nRequires-Dist: x; extra == \"y\"\n\nText"
        );
        let mut put = |path: &str, text: &str| {
            zip.start_file(path, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        };
        put(&format!("{name}-{version}.dist-info/METADATA"), &metadata);
        for module in modules {
            put(module, "x = 1");
        }
        zip.finish().unwrap().into_inner()
    }

    fn own() -> (tempfile::TempDir, OwnPackages) {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnPackages::open(&dir.path().join("own")).unwrap();
        (dir, own)
    }

    #[test]
    fn a_package_is_added_listed_replaced_and_removed() {
        let (_dir, own) = own();
        let added = own.add("my_tool-1.0-py3-none-any.whl", &wheel("my-tool", "1.0", &["my_tool.py"]), &[]).unwrap();
        assert_eq!(
            (added.imports.as_slice(), added.requires.as_slice()),
            (&["my_tool".to_owned()][..], &["six".to_owned()][..])
        );
        assert_eq!(added.licence, "MIT");
        own.add("my_tool-2.0-py3-none-any.whl", &wheel("my-tool", "2.0", &["my_tool.py"]), &[]).unwrap();
        let listed = own.list().unwrap();
        assert_eq!(listed.iter().map(|package| package.version.as_str()).collect::<Vec<_>>(), ["2.0"]);
        assert!(own.files().unwrap().iter().any(|(path, _)| path == "my_tool.py"));
        assert!(own.remove("My.Tool").unwrap());
        assert!(!own.remove("my-tool").unwrap());
        assert!(own.list().unwrap().is_empty());
    }

    #[test]
    fn a_file_name_says_what_the_wheel_is_for() {
        let (_dir, own) = own();
        let bytes = wheel("a", "1", &["a.py"]);
        for name in [
            "a.whl",
            "a-1.whl",
            "a-1-py3-none-any.zip",
            "a-1-py2-none-any.whl",
            "../a-1-py3-none-any.whl",
            "-a-1-py3-none-any.whl",
            "",
        ] {
            assert!(matches!(own.add(name, &bytes, &[]), Err(OwnPackageError::FileName(_))), "{name}");
        }
        for tags in ["cp312-cp312-manylinux2014_x86_64", "py3-none-linux_x86_64"] {
            let error = own.add(&format!("a-1-{tags}.whl"), &bytes, &[]).unwrap_err();
            assert!(matches!(error, OwnPackageError::Platform(..)), "{error}");
        }
        assert!(own.add("a-1-1-py2.py3-none-any.whl", &bytes, &[]).is_ok(), "with a build number");
    }

    #[test]
    fn metadata_is_the_wheels_own() {
        let (_dir, own) = own();
        for bytes in [wheel("b", "1", &["a.py"]), wheel("a", "2", &["a.py"]), wheel("a", "1", &["a.txt"])] {
            let error = own.add("a-1-py3-none-any.whl", &bytes, &[]).unwrap_err();
            assert!(matches!(error, OwnPackageError::Metadata { .. }), "{error}");
        }
        let error = own.add("a-1-py3-none-any.whl", b"no archive", &[]).unwrap_err();
        assert!(matches!(error, OwnPackageError::Wheel { .. }), "{error}");
    }

    #[test]
    fn no_module_is_there_twice() {
        let (_dir, own) = own();
        own.add("b-1-py3-none-any.whl", &wheel("b", "1", &["shared.py"]), &[]).unwrap();
        let taken = [("six".to_owned(), "the bundled `six`".to_owned())];
        for (module, owner) in [
            ("json.py", "the standard library"),
            ("os/x.py", "the standard library"),
            ("_private.py", "the standard library"),
            ("six.py", "the bundled `six`"),
            ("shared/x.py", "`b`"),
        ] {
            let error = own.add("a-1-py3-none-any.whl", &wheel("a", "1", &[module]), &taken).unwrap_err().to_string();
            assert!(error.contains(owner), "{error}");
        }
        assert_eq!(own.list().unwrap().len(), 1);
    }

    #[test]
    fn the_number_of_packages_is_bounded() {
        let (_dir, own) = own();
        let add = |number: usize| {
            let name = format!("p{number}");
            own.add(&format!("{name}-1-py3-none-any.whl"), &wheel(&name, "1", &[&format!("{name}.py")]), &[])
        };
        for number in 0..MAX_OWN_PACKAGES {
            add(number).unwrap();
        }
        assert!(matches!(add(MAX_OWN_PACKAGES), Err(OwnPackageError::TooMany)));
        add(0).unwrap();
    }

    /// A wheel with a module of this many zero bytes, and this many empty modules beside it.
    fn large(name: &str, bytes: usize, modules: usize) -> (String, Vec<u8>) {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let mut put = |path: &str, content: &[u8]| {
            zip.start_file(path, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        };
        let metadata = format!("Name: {name}\nVersion: 1\n");
        put(&format!("{name}-1.dist-info/METADATA"), metadata.as_bytes());
        put(&format!("{name}/__init__.py"), &vec![b'\n'; bytes.saturating_sub(metadata.len())]);
        for number in 0..modules {
            put(&format!("{name}/m{number}.py"), b"");
        }
        (format!("{name}-1-py3-none-any.whl"), zip.finish().unwrap().into_inner())
    }

    fn put(own: &OwnPackages, (file, bytes): &(String, Vec<u8>)) -> Result<OwnPackage, OwnPackageError> {
        own.add(file, bytes, &[])
    }

    /// Puts a wheel into the directory without the checks.
    fn put_unchecked(own: &OwnPackages, (file, bytes): &(String, Vec<u8>)) {
        std::fs::write(own.dir.path_of(file), bytes).unwrap();
    }

    #[test]
    fn what_all_take_unpacked_is_bounded() {
        let (_dir, own) = own();
        let each = usize::try_from(MAX_OWN_PACKAGES_BYTES / 4).unwrap();
        for name in ["a", "b", "c"] {
            put(&own, &large(name, each, 0)).unwrap();
        }
        put(&own, &large("d", each - 1, 0)).unwrap();
        assert_eq!(
            own.list().unwrap().iter().map(|package| package.unpacked_bytes).sum::<u64>(),
            MAX_OWN_PACKAGES_BYTES - 1
        );
        // Replacing its own other version, up to the last byte.
        put(&own, &large("d", each, 0)).unwrap();
        let over = large("e", 40, 0);
        let error = put(&own, &over).unwrap_err();
        assert!(matches!(&error, OwnPackageError::TooLarge(name) if name == "e"), "{error}");
        assert!(error.to_string().contains("glovebox packages remove NAME"), "{error}");
        assert_eq!(own.files().unwrap().len(), 8);
        // Also if somebody put it there by hand: it is listed, not imported, and can be removed.
        put_unchecked(&own, &over);
        assert_eq!(own.list().unwrap().len(), 5);
        assert!(matches!(own.files(), Err(OwnPackageError::TooLarge(name)) if name == "e"));
        assert!(own.remove("e").unwrap());
        own.files().unwrap();
    }

    #[test]
    fn how_many_files_all_have_is_bounded() {
        let (_dir, own) = own();
        let each = MAX_OWN_PACKAGES_FILES / 4;
        for name in ["a", "b", "c"] {
            put(&own, &large(name, 1, each - 2)).unwrap();
        }
        put(&own, &large("d", 1, each - 3)).unwrap();
        put(&own, &large("d", 1, each - 2)).unwrap();
        assert_eq!(own.files().unwrap().len(), MAX_OWN_PACKAGES_FILES);
        let error = put(&own, &large("e", 1, 0)).unwrap_err();
        assert!(matches!(&error, OwnPackageError::TooManyFiles(name) if name == "e"), "{error}");
        put_unchecked(&own, &large("e", 1, 0));
        assert!(matches!(own.files(), Err(OwnPackageError::TooManyFiles(_))));
    }

    #[test]
    fn a_wheel_that_claims_less_than_it_has_is_held_to_what_it_has() {
        let (_dir, own) = own();
        let each = usize::try_from(MAX_WHEEL_BYTES).unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            let (file, mut bytes) = large(name, each, 0);
            // The lengths in the central directory and in the local header of the large module.
            let length = u32::try_from(each - "Name: a\nVersion: 1\n".len()).unwrap().to_le_bytes();
            for at in 0..bytes.len() - 4 {
                if bytes[at..at + 4] == length {
                    bytes[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
                }
            }
            put_unchecked(&own, &(file, bytes));
        }
        assert!(own.list().unwrap().iter().all(|package| package.unpacked_bytes < 100));
        // The archive reader may detect it; what matters is that it is refused.
        assert!(own.files().is_err());
    }

    #[test]
    fn a_list_unpacks_metadata_alone_and_no_more_of_it_than_a_megabyte() {
        let (_dir, own) = own();
        let (file, mut bytes) = large("a", 1_000_000, 0);
        // Damaged bytes of a module do not affect the list.
        let begin = bytes.windows(13).position(|window| window == b"a/__init__.py").unwrap() + 13;
        bytes[begin..begin + 20].fill(0xff);
        put_unchecked(&own, &(file, bytes));
        assert_eq!(own.list().unwrap()[0].unpacked_bytes, 1_000_000);
        assert!(own.files().is_err());
        assert!(own.remove("a").unwrap());
        let metadata = |bytes: u64| {
            let text = format!("Name: b\nVersion: 1\n\n{}", "x".repeat(usize::try_from(bytes).unwrap() - 20));
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            for (path, text) in [("b-1.dist-info/METADATA", text.as_str()), ("b.py", "")] {
                zip.start_file(path, SimpleFileOptions::default()).unwrap();
                zip.write_all(text.as_bytes()).unwrap();
            }
            own.add("b-1-py3-none-any.whl", &zip.finish().unwrap().into_inner(), &[])
        };
        metadata(MAX_METADATA_BYTES - 1).unwrap();
        metadata(MAX_METADATA_BYTES).unwrap();
        assert!(matches!(metadata(MAX_METADATA_BYTES + 1), Err(OwnPackageError::Metadata { .. })));
    }
}
