//! A loaded runtime: its compiled module, its driver, its standard library, and the bundled and custom packages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, OnceLock},
};

use glovebox_core::{ImageDriver, Library, LibraryFiles, LibraryMount, Limits, MemoryLimit, StandardFiles};
use glovebox_interpreters::{Anchors, Boot, Driver, EMBEDDED_PACKAGES, JavaScript, Python};
use glovebox_runtimes::{
    Binary, CustomImage, Digest, DriverKind, ImageRecord, LibraryEntry, PackageError, PackageList, PackedSource,
    PackedSources, Recipe, Runtimes, SourcesEntry, UnpackedEntry, UserPackages, unpack,
};
use glovebox_vfs::{MountSource, SourceError};
use wasmtime::Module;

use crate::{
    EngineError, ExecuteError, Language, Packages,
    guest::{instantiate::Template, recycled::RecycledInstances},
    session::PristineImage,
};

/// A loaded runtime, shared by all sandboxes that use it.
pub(crate) struct Runtime {
    /// The name in the manifest, the name of a custom image, or the path of a custom binary.
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) version: Option<String>,
    pub(crate) template: Template,
    pub(crate) drive: ExecutionMode,
    /// The standard library, if it is a separate file.
    pub(crate) library: Option<LibraryMount>,
    /// Packages at `/app/site-packages` for a custom image with wheels. `None` if the runtime uses the packages that
    /// all runtimes of the engine share.
    pub(crate) packages: Option<Arc<dyn MountSource>>,
    /// Recycled instances. `None` without an instance pool, or if instances cannot be restored to an image.
    pub(crate) recycled: Option<RecycledInstances>,
}

/// The execution mode of a runtime's guests.
pub(crate) enum ExecutionMode {
    /// Calls into a prepared image.
    Image(Arc<Image>),
    /// A plain command: `_start` with the script's path as an argument.
    Command {
        /// Arguments before the script's path.
        flags: &'static [&'static str],
    },
}

pub(crate) struct Image {
    driver: Box<dyn Driver>,
    anchors: Anchors,
    /// The SHA-256 of the prepared module in hexadecimal. Equal images have equal digests.
    pub(crate) identity: String,
    pub(crate) memory_bytes: u64,
    memory: Module,
    globals: BTreeMap<String, u64>,
    pristine: OnceLock<PristineImage>,
}

impl Image {
    pub(crate) fn new(driver: Box<dyn Driver>, record: ImageRecord, memory: Module) -> Self {
        Self {
            driver,
            anchors: Anchors(record.anchors),
            identity: record.sha256.to_string(),
            memory_bytes: record.memory_bytes,
            memory,
            globals: record.values,
            pristine: OnceLock::new(),
        }
    }

    /// Returns the driver and its anchors in the image.
    pub(crate) fn driver(&self) -> ImageDriver<'_> {
        ImageDriver { driver: &*self.driver, anchors: &self.anchors }
    }

    /// Returns the pristine image, which is instantiated at first use.
    pub(crate) fn pristine(&self) -> Result<&PristineImage, ExecuteError> {
        if let Some(pristine) = self.pristine.get() {
            return Ok(pristine);
        }
        // If two threads create the pristine image concurrently, the second copy is dropped.
        let made = PristineImage::new(&self.memory, &self.globals)?;
        Ok(self.pristine.get_or_init(|| made))
    }
}

impl Runtime {
    pub(crate) fn image(&self) -> Option<&Arc<Image>> {
        match &self.drive {
            ExecutionMode::Image(image) => Some(image),
            ExecutionMode::Command { .. } => None,
        }
    }

    /// Returns the image, or an error if the runtime is not prepared.
    pub(crate) fn prepared(&self) -> Result<&Arc<Image>, ExecuteError> {
        self.image().ok_or_else(|| ExecuteError::NotPrepared { name: self.name.clone() })
    }

    /// Returns the memory limit for a guest of this runtime.
    pub(crate) fn memory_limit(&self, limits: &Limits) -> MemoryLimit {
        MemoryLimit::of_image(limits.memory_bytes, self.image().map_or(0, |image| image.memory_bytes))
    }
}

/// Returns a recipe's driver. With `lean`, JavaScript boots without Node's modules.
pub(crate) fn driver(recipe: &Recipe, lean: bool) -> Box<dyn Boot> {
    match recipe.driver {
        DriverKind::Cpython => Box::new(Python::command()),
        DriverKind::CpythonReactor => Box::new(Python::reactor()),
        DriverKind::QuickjsReactor => Box::new(JavaScript::reactor().lean(lean)),
        DriverKind::QuickjsCommand => Box::new(JavaScript::command().lean(lean)),
    }
}

/// Returns the manifest name of a binary, or its path if it is not in the manifest.
pub(crate) fn display_name(binary: &Binary) -> String {
    binary.entry.as_ref().map_or_else(|| binary.path.display().to_string(), |entry| entry.name.clone())
}

/// Packages at `/app/site-packages`, unpacked when a guest first accesses them.
#[derive(Clone)]
pub(crate) struct SharedPackages {
    runtimes: Arc<Runtimes>,
    source: Arc<Library<PackageFiles>>,
}

struct PackageFiles {
    runtimes: Arc<Runtimes>,
    own: Option<UserPackages>,
    unpacked: OnceLock<Vec<(String, Vec<u8>)>>,
}

impl LibraryFiles for PackageFiles {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        if let Some(files) = self.unpacked.get() {
            return Ok(files);
        }
        let mut files = files(&self.runtimes).map_err(|error| SourceError::new(error.to_string()))?;
        match self.own.as_ref().map_or(Ok(Vec::new()), UserPackages::files) {
            Ok(own) => files.extend(own),
            Err(error) => tracing::error!(%error, "cannot read the user's packages; scripts run without them"),
        }
        files.sort();
        files.dedup_by(|one, other| one.0 == other.0);
        // If two threads unpack the files concurrently, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Packages for scripts in an image with wheels.
struct ImageFiles {
    shared: Arc<Library<PackageFiles>>,
    image: Arc<CustomImage>,
    unpacked: OnceLock<Vec<(String, Vec<u8>)>>,
}

impl LibraryFiles for ImageFiles {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        if let Some(files) = self.unpacked.get() {
            return Ok(files);
        }
        let mut files = self.image.packages().map_err(|error| SourceError::new(error.to_string()))?;
        let top = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".py").to_owned();
        let own: BTreeSet<String> = files.iter().map(|(path, _)| top(path)).collect();
        let shared = self.shared.0.files()?.iter();
        files.extend(shared.filter(|(path, _)| !own.contains(&top(path))).cloned());
        files.sort();
        // If two threads unpack the files concurrently, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Adds the bundled packages to the runtimes, unless `packages` is [`Packages::None`]. `own` is the directory of custom
/// packages, which are not part of images.
pub(crate) fn open_packages(
    runtimes: Runtimes,
    packages: Packages,
    own: Option<&Path>,
) -> Result<(Arc<Runtimes>, Option<SharedPackages>), EngineError> {
    if packages == Packages::None {
        return Ok((Arc::new(runtimes), None));
    }
    let runtimes = Arc::new(runtimes.with_packages(PackageList::builtin()?));
    let own = own.map(UserPackages::open).transpose()?;
    let files = PackageFiles { runtimes: Arc::clone(&runtimes), own, unpacked: OnceLock::new() };
    let packages = SharedPackages { runtimes: Arc::clone(&runtimes), source: Arc::new(Library(files)) };
    Ok((runtimes, Some(packages)))
}

impl SharedPackages {
    pub(crate) fn source(&self) -> Arc<dyn MountSource> {
        Arc::clone(&self.source) as _
    }

    /// Returns the bundled packages and the files in `more` as a mount source, for preparing an image.
    pub(crate) fn source_with(&self, more: Vec<(String, Vec<u8>)>) -> Result<Arc<dyn MountSource>, PackageError> {
        let mut files = files(&self.runtimes)?;
        files.extend(more);
        files.sort();
        Ok(Arc::new(Library(files)))
    }

    /// Returns all packages and an image's wheels as one mount source, unpacked when a guest first accesses it. The
    /// image's modules take precedence over packages with the same name.
    pub(crate) fn source_of(&self, image: &Arc<CustomImage>) -> Arc<dyn MountSource> {
        let (shared, image) = (Arc::clone(&self.source), Arc::clone(image));
        Arc::new(Library(ImageFiles { shared, image, unpacked: OnceLock::new() }))
    }

    /// Returns a digest of the bundled files.
    pub(crate) fn digest(&self) -> Digest {
        let wheels = self.runtimes.packages().digest();
        let own = EMBEDDED_PACKAGES.iter().flat_map(|(path, bytes)| [path.as_bytes(), bytes]);
        let fields: Vec<&[u8]> = [wheels.as_bytes().as_slice()].into_iter().chain(own).collect();
        Digest::of_fields(&fields)
    }
}

/// Returns all bundled files, sorted by path.
fn files(runtimes: &Runtimes) -> Result<Vec<(String, Vec<u8>)>, PackageError> {
    let mut files = runtimes.package_files()?;
    files.extend(EMBEDDED_PACKAGES.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())));
    files.sort();
    Ok(files)
}

/// Creates the mount of a library, at the guest path in its manifest entry.
pub(crate) fn library_mount(entry: &LibraryEntry, file: File) -> LibraryMount {
    let files = LibraryFile { file, entry: entry.clone(), unpacked: OnceLock::new(), sources: OnceLock::new() };
    LibraryMount::new(&entry.guest_path, entry.size_bytes, &directories(entry), files)
}

/// Returns the directories next to the archive.
pub(super) fn directories(entry: &LibraryEntry) -> Vec<&str> {
    let unpacked = entry.unpacked.as_ref().map(|unpacked| unpacked.directory.as_str());
    unpacked.into_iter().chain(entry.sources.as_ref().map(|sources| sources.directory.as_str())).collect()
}

/// Returns the innermost directory that contains all these directories, or an empty path if there is no such directory.
pub(super) fn common_directory<'a>(directories: &[&'a str]) -> &'a str {
    let Some((first, others)) = directories.split_first() else { return "" };
    let ends = first.match_indices('/').map(|(at, _)| at).chain([first.len()]);
    let fits = |parent: &str| {
        let contains =
            |other: &&str| other.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        others.iter().all(contains)
    };
    ends.filter_map(|end| first.get(..end)).rfind(|parent| fits(parent)).unwrap_or_default()
}

/// A library that is read in place. All guests and processes share the system's page cache, so only bytes that a guest
/// reads are copied. Mapping the file would require another `unsafe` block and save only one copy of the bytes that an
/// import reads.
struct LibraryFile {
    file: File,
    entry: LibraryEntry,
    /// Files of the unpacked archive, or the error. Unpacked when a guest of this process first looks up a file.
    unpacked: OnceLock<Result<BTreeMap<String, FileBeside>, String>>,
    /// Source files, or the error. Indexed when a guest first looks up a file.
    sources: OnceLock<Result<BTreeMap<String, FileBeside>, String>>,
}

/// A file next to the archive. Sources are unpacked when a guest of this process first reads them.
enum FileBeside {
    Unpacked(Vec<u8>),
    Packed { sources: PackedSources, file: PackedSource, content: OnceLock<Result<Vec<u8>, String>> },
}

impl FileBeside {
    fn content(&self) -> Result<&[u8], SourceError> {
        match self {
            Self::Unpacked(content) => Ok(content),
            Self::Packed { sources, file, content } => {
                let content = content.get_or_init(|| sources.clone().read(*file).map_err(|error| error.to_string()));
                content.as_deref().map_err(|reason| SourceError::new(reason.clone()))
            }
        }
    }
}

/// Unpacks the archive inside a library. Returns its files by path relative to the library's directory.
fn unpacked_files(entry: &UnpackedEntry, library: &File) -> std::io::Result<BTreeMap<String, FileBeside>> {
    let files = unpack(library, &entry.archive)?;
    let placed = |(path, bytes)| (format!("{}/{path}", entry.directory), FileBeside::Unpacked(bytes));
    Ok(files.into_iter().map(placed).collect())
}

/// Returns the source files of a library's modules, by path relative to the library's directory.
fn source_files(entry: &SourcesEntry) -> std::io::Result<BTreeMap<String, FileBeside>> {
    let mut sources = PackedSources::open(&entry.archive)?;
    let files = sources.files()?;
    let placed = |(path, file)| {
        let packed = FileBeside::Packed { sources: sources.clone(), file, content: OnceLock::new() };
        (format!("{}/{path}", entry.directory), packed)
    };
    Ok(files.into_iter().map(placed).collect())
}

/// Returns the contents of all files next to a library's archive, by path relative to the library's directory.
pub(super) fn all_files_beside(entry: &LibraryEntry, library: &File) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let unpacked = entry.unpacked.as_ref().map(|entry| unpacked_files(entry, library)).transpose()?;
    let sources = entry.sources.as_ref().map(source_files).transpose()?;
    let files = unpacked.into_iter().chain(sources).flatten();
    files.map(|(path, file)| Ok((path, file.content().map_err(std::io::Error::other)?.to_vec()))).collect()
}

impl StandardFiles for LibraryFile {
    type File = FileBeside;

    fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.file.read_at(into, offset).map_err(|error| SourceError::new(error.to_string()))
    }

    fn beside(&self, directory: &str) -> Result<&BTreeMap<String, FileBeside>, SourceError> {
        let unpacked = self.entry.unpacked.as_ref().filter(|unpacked| unpacked.directory == directory);
        let files = match (unpacked, &self.entry.sources) {
            (Some(unpacked), _) => {
                self.unpacked.get_or_init(|| unpacked_files(unpacked, &self.file).map_err(|error| error.to_string()))
            }
            (None, Some(sources)) => {
                self.sources.get_or_init(|| source_files(sources).map_err(|error| error.to_string()))
            }
            (None, None) => {
                return Err(SourceError::new(format!("the library does not contain the directory `{directory}`")));
            }
        };
        files.as_ref().map_err(|reason| SourceError::new(reason.clone()))
    }

    fn len_of(&self, file: &FileBeside) -> u64 {
        match file {
            FileBeside::Unpacked(content) => content.len() as u64,
            FileBeside::Packed { file, .. } => file.size_bytes,
        }
    }

    fn read_beside(&self, file: &FileBeside, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let file = file.content()?;
        let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(from);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn mounted(content: &[u8], unpacked: Option<UnpackedEntry>) -> LibraryMount {
        mounted_with(content, unpacked, None)
    }

    fn mounted_with(content: &[u8], unpacked: Option<UnpackedEntry>, sources: Option<SourcesEntry>) -> LibraryMount {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let entry = LibraryEntry {
            file: "any".into(),
            guest_path: "/usr/local/lib/python.zip".into(),
            unpacked,
            sources,
            sha256: Digest::of(content),
            size_bytes: content.len() as u64,
        };
        library_mount(&entry, file)
    }

    fn read(source: &dyn MountSource, path: &str, offset: u64) -> Vec<u8> {
        let mut into = [0; 4];
        let count = source.read(path, offset, &mut into).unwrap();
        into[..count].to_vec()
    }

    #[test]
    fn library_is_read_in_place() {
        let source = mounted(b"library", None).source;
        assert_eq!(read(&*source, "python.zip", 0), b"libr");
        assert_eq!(read(&*source, "python.zip", 4), b"ary");
        assert_eq!(read(&*source, "python.zip", 7), b"");
    }

    #[test]
    fn archive_files_are_readable_beside_the_archive() {
        let data = zipped(&[("one", b"1"), ("two/three", b"333")]);
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", &data)]), Some(entry)).source;
        assert_eq!(read(&*source, "python/a/data/one", 0), b"1");
        assert_eq!(read(&*source, "python/a/data/two/three", 1), b"33");
        assert_eq!(source.stat("python/a/data/two/three").unwrap().unwrap().size_bytes, 3);
    }

    #[test]
    fn damaged_archive_fails_on_lookup() {
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", b"no archive")]), Some(entry)).source;
        source.stat("python/a/data/one").unwrap_err();
        assert_eq!(source.stat("python/other").unwrap(), None);
        assert!(source.stat("python.zip").unwrap().is_some());
    }

    #[test]
    fn sources_are_in_the_directory_of_the_library() {
        let data = zipped(&[("one", b"1")]);
        let unpacked = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let sources = SourcesEntry { archive: "python-3.15.0".into(), directory: "python".into() };
        let source = mounted_with(&zipped(&[("a/data.zip", &data)]), Some(unpacked), Some(sources)).source;
        assert_eq!(read(&*source, "python/a/data/one", 0), b"1");
        assert_eq!(read(&*source, "python/textwrap.py", 3), b"Text");
        let module = PackedSources::open("python-3.15.0").unwrap().files().unwrap()["json/__init__.py"];
        let length = source.stat("python/json/__init__.py").unwrap().unwrap().size_bytes;
        assert_eq!(length, module.size_bytes);
        assert_eq!(read(&*source, "python/json/__init__.py", length), b"");
        assert_eq!(source.stat("python/none.py").unwrap(), None);
        PackedSources::open("python-3.14.0").err().unwrap();
    }

    #[test]
    fn a_provider_gets_one_directory_for_all_files() {
        for (directories, common) in [
            (&[][..], ""),
            (&["a/b"], "a/b"),
            (&["a/b/c", "a"], "a"),
            (&["a", "a/b/c"], "a"),
            (&["a/bc", "a/b"], "a"),
            (&["a/b", "c"], ""),
        ] {
            assert_eq!(common_directory(directories), common, "{directories:?}");
        }
    }
}
