//! The pinned packages, and the user's own.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, OnceLock},
};

use glovebox_core::{Library, LibraryFiles};
use glovebox_interpreters::EMBEDDED_PACKAGES;
use glovebox_runtimes::{Digest, OwnImage, OwnPackages, PackageError, PackageList, Runtimes};
use glovebox_vfs::{MountSource, SourceError};

use crate::{EngineError, Packages};

/// Packages at `/app/site-packages`, unpacked when a guest first accesses them.
#[derive(Clone)]
pub(crate) struct SharedPackages {
    runtimes: Arc<Runtimes>,
    source: Arc<Library<Files>>,
}

struct Files {
    runtimes: Arc<Runtimes>,
    own: Option<OwnPackages>,
    unpacked: OnceLock<Vec<(String, Vec<u8>)>>,
}

impl LibraryFiles for Files {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        if let Some(files) = self.unpacked.get() {
            return Ok(files);
        }
        let mut files = files(&self.runtimes).map_err(|error| SourceError::new(error.to_string()))?;
        match self.own.as_ref().map_or(Ok(Vec::new()), OwnPackages::files) {
            Ok(own) => files.extend(own),
            Err(error) => tracing::error!(%error, "the user's own packages cannot be read"),
        }
        files.sort();
        files.dedup_by(|one, other| one.0 == other.0);
        // If two threads unpack them at once, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Packages for the scripts of an image.
struct ImageFiles {
    shared: Arc<Library<Files>>,
    image: Arc<OwnImage>,
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
        // If two threads unpack them at once, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Adds the configured packages to the runtimes. The user's own packages in the directory `own` are not part of images.
pub(crate) fn open(
    runtimes: Runtimes,
    packages: Packages,
    own: Option<&Path>,
) -> Result<(Arc<Runtimes>, Option<SharedPackages>), EngineError> {
    if packages == Packages::None {
        return Ok((Arc::new(runtimes), None));
    }
    let runtimes = Arc::new(runtimes.with_packages(PackageList::builtin()?));
    let own = own.map(OwnPackages::open).transpose()?;
    let files = Files { runtimes: Arc::clone(&runtimes), own, unpacked: OnceLock::new() };
    let packages = SharedPackages { runtimes: Arc::clone(&runtimes), source: Arc::new(Library(files)) };
    Ok((runtimes, Some(packages)))
}

impl SharedPackages {
    /// Returns the packages as a source to mount.
    pub(crate) fn source(&self) -> Arc<dyn MountSource> {
        Arc::clone(&self.source) as _
    }

    /// Returns the bundled packages and `more` files as a source to mount while an image is prepared.
    pub(crate) fn source_with(&self, more: Vec<(String, Vec<u8>)>) -> Result<Arc<dyn MountSource>, PackageError> {
        let mut files = files(&self.runtimes)?;
        files.extend(more);
        files.sort();
        Ok(Arc::new(Library(files)))
    }

    /// Returns all packages and the wheels of an image as one source to mount, unpacked when a guest first accesses it.
    /// If both have a module, the image's wins.
    pub(crate) fn source_of(&self, image: &Arc<OwnImage>) -> Arc<dyn MountSource> {
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
