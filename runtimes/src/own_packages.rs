//! Packages of the user's own: wheels of pure Python in a directory of theirs.

use glovebox_vfs::{escaped, escaped_text};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::wheel_files::{Compiled, WHEEL_BYTES_MOST, WheelFault, wheel_files};
use crate::{CacheError, Digest, Fetcher, PackageError, Progress};

/// The most packages of one's own.
pub const OWN_PACKAGES_MOST: usize = 128;

/// Bytes of a name, a version or an import.
const NAME_BYTES_MOST: usize = 100;

/// Modules of the standard library, which no package may hide or seem to be.
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

/// A package of the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The wheel's file name.
    pub file: String,
    /// What the wheel hashes to.
    pub sha256: Digest,
    /// Its licence, in the words of its metadata; empty where it says none.
    pub licence: String,
    /// The names that scripts import.
    pub imports: Vec<String>,
    /// What it requires, as its metadata says it, without what is only for extras.
    pub requires: Vec<String>,
}

/// Why a package of one's own could not be added, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnPackageError {
    /// The file's name is no wheel's.
    #[error("`{name}` is no wheel's file name; it must be like `NAME-VERSION-py3-none-any.whl`", name = escaped(.0))]
    FileName(String),
    /// The wheel is for one platform.
    #[error(
        "`{name}` is compiled for one platform (`{other}`); the sandbox runs pure Python alone: look for a version of it that ends in `-none-any.whl`", name = escaped(.0), other = escaped(.1)
    )]
    Platform(String, String),
    /// The wheel cannot be used.
    #[error("`{file}` cannot be used: {source}", file = escaped(.file))]
    Wheel {
        /// The file.
        file: String,
        /// Why.
        source: WheelFault,
    },
    /// The wheel's metadata is not there or is not its own.
    #[error("`{file}` cannot be used: {problem}", file = escaped(.file), problem = escaped_text(.problem))]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A module of it has a name that is taken.
    #[error("`{name}` has a module `{module}`, and so has {owner}; it cannot be added beside it", name = escaped(.name), module = escaped(.module), owner = escaped_text(.owner))]
    Clash {
        /// The package.
        name: String,
        /// The module.
        module: String,
        /// Who has it.
        owner: String,
    },
    /// Too many packages.
    #[error("there are {OWN_PACKAGES_MOST} packages already; remove one")]
    TooMany,
    /// Not there, or pip did not bring it.
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

/// A wheel whose name, metadata and files are as they must be.
struct Checked {
    package: OwnPackage,
    files: Vec<(String, Vec<u8>)>,
}

impl OwnPackages {
    /// Opens the directory, making it where it is missing. It must be the user's own and writable by nobody else.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, Guarded::Packages)? })
    }

    /// What is there, by name.
    pub fn list(&self) -> Result<Vec<OwnPackage>, OwnPackageError> {
        Ok(self.checked()?.into_iter().map(|checked| checked.package).collect())
    }

    /// All files, by their paths below `site-packages`, sorted.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, OwnPackageError> {
        let mut files: Vec<_> = self.checked()?.into_iter().flat_map(|checked| checked.files).collect();
        files.sort();
        Ok(files)
    }

    /// Adds a wheel in place of another version of the same package. `taken` are the modules of other packages, each with who has it.
    pub fn add(&self, file: &str, bytes: &[u8], taken: &[(String, String)]) -> Result<OwnPackage, OwnPackageError> {
        let added = check(file, bytes)?;
        let others = self.checked()?;
        let same = |other: &OwnPackage| normal(&other.name) == normal(&added.package.name);
        let (replaced, others): (Vec<_>, Vec<_>) = others.into_iter().map(|other| other.package).partition(same);
        if others.len() >= OWN_PACKAGES_MOST {
            return Err(OwnPackageError::TooMany);
        }
        for module in &added.package.imports {
            let own =
                others.iter().find(|other| other.imports.contains(module)).map(|other| format!("`{}`", other.name));
            let given = taken.iter().find(|(name, _)| name == module).map(|(_, owner)| owner.clone());
            let standard = STANDARD.split(' ').any(|name| name == module) || module.starts_with('_');
            let standard = standard.then(|| "the standard library".to_owned());
            if let Some(owner) = standard.or(given).or(own) {
                return Err(OwnPackageError::Clash { name: added.package.name, module: module.clone(), owner });
            }
        }
        let mut temp = self.dir.create()?;
        temp.write_all(bytes).map_err(|e| CacheError::io("write in", self.dir.path(), e))?;
        temp.persist(file)?;
        for old in replaced.iter().filter(|old| old.file != file) {
            self.dir.remove(&old.file)?;
        }
        Ok(added.package)
    }

    /// Has pip download a wheel of pure Python: its file name and bytes.
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

    /// Removes a package; `false` if there is none of this name.
    pub fn remove(&self, name: &str) -> Result<bool, OwnPackageError> {
        let mut any = false;
        for package in self.list()?.iter().filter(|package| normal(&package.name) == normal(name)) {
            any |= self.dir.remove(&package.file)?;
        }
        Ok(any)
    }

    fn checked(&self) -> Result<Vec<Checked>, OwnPackageError> {
        let mut all = Vec::new();
        for file in self.dir.names()?.into_iter().filter(|name| name.ends_with(".whl") && !name.starts_with('.')) {
            if all.len() > OWN_PACKAGES_MOST {
                return Err(OwnPackageError::TooMany);
            }
            let Some((wheel, _)) = self.dir.open_file(&file)? else { continue };
            let bytes = read_wheel(wheel).map_err(|e| CacheError::io("read", &self.dir.path_of(&file), e))?;
            all.push(check(&file, &bytes)?);
        }
        Ok(all)
    }
}

/// Reads a file of which a wheel may be made, at most one byte more than one has.
pub fn read_wheel(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(WHEEL_BYTES_MOST.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check(file: &str, bytes: &[u8]) -> Result<Checked, OwnPackageError> {
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
    let files = wheel_files(bytes, Compiled::Refused).map_err(unusable)?;
    let wrong = |problem: &str| OwnPackageError::Metadata { file: file.to_owned(), problem: problem.to_owned() };
    let metadata = files.iter().find(|(path, _)| {
        path.split_once('/').is_some_and(|(dir, file)| file == "METADATA" && dir.ends_with(".dist-info"))
    });
    let (_, metadata) = metadata.ok_or_else(|| wrong("it has no `.dist-info/METADATA`"))?;
    let metadata = String::from_utf8_lossy(metadata);
    let field = |key: &str| -> Vec<String> {
        let head = metadata.lines().map(str::trim_end).take_while(|line| !line.is_empty());
        let values = head.filter_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case(key)));
        values.map(|(_, value)| value.chars().filter(|c| !c.is_control()).take(200).collect()).collect()
    };
    let said = field("Name").into_iter().next().unwrap_or_default();
    if normal(&said) != normal(name) || field("Version").first().map(String::as_str) != Some(version) {
        return Err(wrong("its metadata has another name or version than its file"));
    }
    let imports = imports(&files);
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
    };
    Ok(Checked { package, files })
}

/// The modules and packages at the top.
fn imports(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut names: Vec<String> = files
        .iter()
        .filter_map(|(path, _)| match path.split_once('/') {
            Some((top, rest)) => rest.ends_with(".py").then_some(top),
            None => path.strip_suffix(".py"),
        })
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_') && name.len() <= NAME_BYTES_MOST)
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// One name for all ways to write a package's.
pub fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// What may be part of a file's name and of a command line.
fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
    let starts_well = part.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    starts_well && part.len() <= NAME_BYTES_MOST && part.chars().all(plain)
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
        for number in 0..OWN_PACKAGES_MOST {
            add(number).unwrap();
        }
        assert!(matches!(add(OWN_PACKAGES_MOST), Err(OwnPackageError::TooMany)));
        add(0).unwrap();
    }
}
