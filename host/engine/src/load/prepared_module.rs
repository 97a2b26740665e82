//! Prepared modules as WebAssembly, the input for compiling images and for weaving providers, and access to the standard
//! library of an interpreter.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _},
    os::unix::fs::FileExt as _,
    sync::OnceLock,
};

use glovebox_core::{LibraryMount, StandardFiles};
use glovebox_runtimes::{BuildError, CacheKind, Digest, ImageRecord, LibraryEntry, NewArtefact, RuntimeEntry, unpack};
use glovebox_vfs::SourceError;

use crate::{Engine, RuntimeError, engine::EngineInner};

/// A runtime's prepared module: an interpreter that was booted and parked, with its memory as the module's initial
/// data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedModule {
    /// The runtime's entry in the manifest.
    pub entry: RuntimeEntry,
    /// The module in binary format.
    pub wasm: Vec<u8>,
    /// The image's record. The identity in it is the module's digest.
    pub record: ImageRecord,
    /// Name of the driver that calls the module, as in recipes.
    pub driver: &'static str,
    /// Names of the exported functions that the driver calls.
    pub exports: Vec<String>,
    /// The standard library, if it is a separate file.
    pub library: Option<PreparedLibrary>,
}

/// A runtime's standard library, with all files that guests see of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedLibrary {
    /// Path of the archive in guests.
    pub guest_path: String,
    /// Content of the archive.
    pub archive: Vec<u8>,
    /// Contents of the files beside the archive, by path relative to the archive's directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Common directory of `files`, relative to the archive's directory. Empty if there are none.
    pub files_directory: String,
}

impl Engine {
    /// Returns a runtime's prepared module. Boots the interpreter if the module is not in the cache, which takes half a
    /// minute for Python. A prepared image in the cache does not help, because it contains only compiled code.
    ///
    /// # Errors
    /// Fails if the runtime is unknown, has no recipe, or cannot be fetched or booted.
    pub fn prepared_module(&self, name: &str) -> Result<PreparedModule, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let recipe = self.0.runtimes.recipe_of(entry)?;
        let (wasm, record) = match self.0.read_module(entry)? {
            Some(module) => module,
            // A damaged module is built again: no other file refers to it.
            None => {
                self.0.runtimes.modules().remove(&entry.sha256)?;
                self.0.read_module(entry)?.ok_or_else(|| RuntimeError::Load {
                    name: name.to_owned(),
                    reason: "its prepared module changed right after it was written".to_owned(),
                })?
            }
        };
        let exports = recipe.exports.functions.clone();
        let library = self.0.prepared_library(entry)?;
        Ok(PreparedModule { entry: entry.clone(), wasm, record, driver: recipe.driver.as_str(), exports, library })
    }
}

impl EngineInner {
    /// Reads a runtime's whole library. Opening it verifies it.
    fn prepared_library(&self, runtime: &RuntimeEntry) -> Result<Option<PreparedLibrary>, RuntimeError> {
        let Some((entry, mut file)) = runtime.library.as_ref().zip(self.runtimes.library(runtime, &*self.progress)?)
        else {
            return Ok(None);
        };
        let loading =
            |error: std::io::Error| RuntimeError::Load { name: runtime.name.clone(), reason: error.to_string() };
        let files = files_beside(entry, &file).map_err(loading)?;
        let mut archive = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut archive)).map_err(loading)?;
        let files_directory = entry.unpacked.as_ref().map(|unpacked| unpacked.directory.clone()).unwrap_or_default();
        Ok(Some(PreparedLibrary { guest_path: entry.guest_path.clone(), archive, files, files_directory }))
    }

    /// Returns the module from the cache, and builds it if it is missing. Returns `None` if its bytes differ from the
    /// recorded digest.
    fn read_module(&self, entry: &RuntimeEntry) -> Result<Option<(Vec<u8>, ImageRecord)>, RuntimeError> {
        let loading = |reason: String| RuntimeError::Load { name: entry.name.clone(), reason };
        let built = self.open_or_build(CacheKind::Modules, &self.image_key(&entry.into()), || {
            let booted = self.boot_named(entry)?;
            Ok(NewArtefact { aot: booted.module, record: booted.record })
        });
        let mut artefact = built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => loading(other.to_string()),
        })?;
        let mut wasm = Vec::new();
        artefact.aot.read_to_end(&mut wasm).map_err(|error| loading(error.to_string()))?;
        Ok((Digest::of(&wasm) == artefact.record.sha256).then_some((wasm, artefact.record)))
    }
}

/// Returns the mount of a library at the path in its manifest entry.
pub(crate) fn library_mount(entry: &LibraryEntry, file: File) -> LibraryMount {
    let directory = entry.unpacked.as_ref().map(|unpacked| unpacked.directory.as_str());
    let files = LibraryFile { file, entry: entry.clone(), beside: OnceLock::new() };
    LibraryMount::new(&entry.guest_path, entry.size_bytes, directory, files)
}

/// A library that is read in place. All guests and processes share the system's page cache, and only bytes that a guest
/// reads are copied. Mapping the file would need another `unsafe` block, and save only one copy of the bytes that an
/// import reads.
struct LibraryFile {
    file: File,
    entry: LibraryEntry,
    /// Files of the unpacked archive, or the error. Unpacked when the first guest of the process looks for them.
    beside: OnceLock<Result<BTreeMap<String, Vec<u8>>, String>>,
}

/// Unpacks the archive in a library, if its entry names one. Returns its files by path in the library's directory.
fn files_beside(entry: &LibraryEntry, library: &File) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let Some(unpacked) = &entry.unpacked else { return Ok(BTreeMap::new()) };
    let files = unpack(library, &unpacked.archive)?;
    Ok(files.into_iter().map(|(path, bytes)| (format!("{}/{path}", unpacked.directory), bytes)).collect())
}

impl StandardFiles for LibraryFile {
    type File = Vec<u8>;

    fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.file.read_at(into, offset).map_err(|error| SourceError::new(error.to_string()))
    }

    fn beside(&self) -> Result<&BTreeMap<String, Vec<u8>>, SourceError> {
        let files =
            self.beside.get_or_init(|| files_beside(&self.entry, &self.file).map_err(|error| error.to_string()));
        files.as_ref().map_err(|reason| SourceError::new(reason.clone()))
    }

    fn len_of(&self, file: &Vec<u8>) -> u64 {
        file.len() as u64
    }

    fn read_beside(&self, file: &Vec<u8>, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
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

    use glovebox_runtimes::{Digest, UnpackedEntry};
    use glovebox_vfs::MountSource;
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
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let entry = LibraryEntry {
            file: "any".into(),
            guest_path: "/usr/local/lib/python.zip".into(),
            unpacked,
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
    fn it_is_read_where_it_lies() {
        let source = mounted(b"library", None).source;
        assert_eq!(read(&*source, "python.zip", 0), b"libr");
        assert_eq!(read(&*source, "python.zip", 4), b"ary");
        assert_eq!(read(&*source, "python.zip", 7), b"");
    }

    #[test]
    fn the_files_of_an_archive_lie_beside_it() {
        let data = zipped(&[("one", b"1"), ("two/three", b"333")]);
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", &data)]), Some(entry)).source;
        assert_eq!(read(&*source, "python/a/data/one", 0), b"1");
        assert_eq!(read(&*source, "python/a/data/two/three", 1), b"33");
        assert_eq!(source.stat("python/a/data/two/three").unwrap().unwrap().size_bytes, 3);
    }

    #[test]
    fn a_damaged_archive_is_an_error_where_somebody_looks_into_it() {
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", b"no archive")]), Some(entry)).source;
        source.stat("python/a/data/one").unwrap_err();
        assert_eq!(source.stat("python/other").unwrap(), None);
        assert!(source.stat("python.zip").unwrap().is_some());
    }
}
