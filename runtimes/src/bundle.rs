//! Bundles: pinned files in one zip file, for use without a network, and the writing of them.

use std::{
    fs::{File, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::{
    PackageEntry, Progress, RuntimeEntry, RuntimeError, Runtimes, ToolEntry,
    entries::Pinned,
    trusted::TrustedDir,
    wheel_files::{self, WheelError},
};

/// A zip file that is searched for pinned files before the network, under their names in the cache. Its contents are
/// verified like a download: each file must match its pin.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns `true` if the bundle contains all of these files. An unreadable bundle contains none.
    pub(crate) fn has(&self, files: &[Pinned]) -> bool {
        let archive = File::open(&self.0).map_err(Into::into).and_then(ZipArchive::new);
        archive.is_ok_and(|archive| files.iter().all(|pinned| archive.index_for_name(&pinned.file_name).is_some()))
    }

    /// Copies a file into the cache.
    pub(crate) fn take(&self, pinned: &Pinned, into: &TrustedDir, progress: &dyn Progress) -> Result<(), WheelError> {
        wheel_files::take_from(&self.0, &pinned.file_name, pinned, into, progress)
    }
}

impl PackageEntry {
    pub(crate) fn wheel(&self) -> Pinned {
        Pinned { file_name: self.file.clone(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}

impl ToolEntry {
    pub(crate) fn module(&self) -> Pinned {
        Pinned { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}

/// Maximum level: a bundle is written once and read many times.
const COMPRESSION_LEVEL: i64 = 9;

impl Runtimes {
    /// Writes a bundle with the files of these runtimes and tools and of all packages. Fetches missing files. Returns
    /// the size in bytes. Equal files give equal bundles.
    ///
    /// # Errors
    /// [`RuntimeError::Package`] for a package; [`RuntimeError::Bundle`] when the bundle cannot be written.
    pub fn write_bundle(
        &self,
        runtimes: &[RuntimeEntry],
        tools: &[ToolEntry],
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
        let package = |error| RuntimeError::Package(Box::new(error));
        self.fetch_packages(progress).map_err(package)?;
        let binaries = runtimes.iter().flat_map(|runtime| [Some(runtime.binary()), runtime.library()]).flatten();
        let binaries = binaries.chain(tools.iter().map(ToolEntry::module)).map(|pinned| pinned.file_name);
        let wheels = self.packages.packages().iter().map(|package| package.file.clone());
        progress.message("writing the bundle");
        // A temporary name until the bundle is complete.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A bundle is meant to be shared, so it is not private to the user.
        let mode = Permissions::from_mode(0o666);
        let mut temp = tempfile::Builder::new().permissions(mode).tempfile_in(directory).map_err(failed)?;
        let mut archive = ZipWriter::new(temp.as_file_mut());
        for (directory, name) in binaries.map(|name| ("binaries", name)).chain(wheels.map(|name| ("packages", name))) {
            let opened = self.cache().subdir(directory)?.open_file(&name)?;
            let Some((file, _)) = opened else {
                return Err(RuntimeError::Missing { path: self.cache().path().join(directory).join(&name), name });
            };
            add(&mut archive, &name, file).map_err(failed)?;
        }
        archive.finish().map_err(|error| failed(error.into()))?;
        let bytes = temp.as_file().metadata().map_err(failed)?.len();
        temp.persist(path).map_err(|error| failed(error.error))?;
        Ok(bytes)
    }
}

fn add(archive: &mut ZipWriter<&mut File>, name: &str, mut file: File) -> io::Result<()> {
    // Wheels are compressed already.
    let is_compressed = Path::new(name).extension().is_some_and(|extension| extension == "whl");
    let method = if is_compressed { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let level = (!is_compressed).then_some(COMPRESSION_LEVEL);
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .compression_level(level)
        .last_modified_time(zip::DateTime::default())
        .unix_permissions(0o644);
    archive.start_file(name, options)?;
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        archive.write_all(chunk.get(..count).unwrap_or_default())?;
    }
}
