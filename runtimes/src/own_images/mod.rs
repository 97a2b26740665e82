//! Custom images: an interpreter after a setup has run. Each is described by a file in a directory of the user.
//!
//! The file contains the inputs for building the image. The built image is in the cache, like any other, and is rebuilt
//! when it is missing. An untrusted file therefore runs no code outside the sandbox.

mod archive;
mod definition;
mod error;

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

pub use definition::{
    ImageDefinition, ImageInputs, InputFile, MAX_IMAGE_CODE_BYTES, MAX_IMAGE_FILE_BYTES, MAX_IMAGE_FILES,
    MAX_IMAGE_MEMORY_BYTES, MAX_IMAGE_PRELOADED, MAX_IMAGE_STEPS, MAX_IMAGE_TIMEOUT_MS,
};
pub use error::OwnImageError;

use crate::guard::Guarded;
use crate::manifest::check_name;
use crate::own_packages::{check_wheel, check_wheels, unpack_wheels};
use crate::trusted::TrustedDir;
use crate::{CacheError, ImageOf, Manifest, RuntimeEntry};

const SUFFIX: &str = ".tar";

/// A directory of custom images.
#[derive(Debug)]
pub struct OwnImages {
    dir: TrustedDir,
}

/// A custom image.
#[derive(Debug)]
pub struct OwnImage {
    definition: ImageDefinition,
    inputs: Inputs,
}

/// Location of the image's inputs.
#[derive(Debug)]
enum Inputs {
    Held(ImageInputs),
    Stored(PathBuf, File),
}

impl OwnImage {
    /// Creates an image without storing it. `taken` lists the modules of other packages, each with its owner.
    ///
    /// # Errors
    /// If the definition is invalid or a wheel cannot be used.
    pub fn new(
        definition: ImageDefinition,
        inputs: ImageInputs,
        taken: &[(String, String)],
    ) -> Result<Self, OwnImageError> {
        definition.check()?;
        check_wheels(&inputs.wheels, taken)?;
        Ok(Self { definition, inputs: Inputs::Held(inputs) })
    }

    /// Reads an exported image. Its inputs are verified, and stay in the file until they are needed.
    ///
    /// # Errors
    /// If the file is not an image, is damaged, or its definition is invalid.
    pub fn import(path: &Path, taken: &[(String, String)]) -> Result<Self, OwnImageError> {
        let file = File::open(path).map_err(|source| failed("read", path, source))?;
        let check = |name: &str, bytes: &[u8]| check_wheel(name, bytes).map_err(io::Error::other);
        let (definition, inputs) = archive::read(&file, check).map_err(|error| damaged(path, &error))?;
        check_wheels(&inputs.wheels, taken)?;
        Ok(Self { definition, inputs: Inputs::Stored(path.to_owned(), file) })
    }

    /// Renames the image.
    ///
    /// # Errors
    /// If the name is invalid for an image.
    pub fn named(mut self, name: &str) -> Result<Self, OwnImageError> {
        name.clone_into(&mut self.definition.name);
        self.definition.check()?;
        Ok(self)
    }

    /// Returns the definition.
    #[must_use]
    pub fn definition(&self) -> &ImageDefinition {
        &self.definition
    }

    /// Returns the runtime entry for the image.
    ///
    /// # Errors
    /// If its interpreter is not the one that it was made for.
    pub fn entry(&self, manifest: &Manifest) -> Result<RuntimeEntry, OwnImageError> {
        let ImageDefinition { name, runtime, runtime_sha256, steps, .. } = &self.definition;
        let base = manifest.runtimes().iter().find(|entry| entry.image.is_none() && entry.name == *runtime);
        let base = base.filter(|entry| entry.sha256 == *runtime_sha256);
        let base = base.ok_or_else(|| OwnImageError::Outdated { name: name.clone(), runtime: runtime.clone() })?;
        Ok(RuntimeEntry {
            name: name.clone(),
            aliases: Vec::new(),
            default: false,
            origin: format!("A custom image of `{runtime}`"),
            image: Some(ImageOf { runtime: runtime.clone(), steps: steps.clone() }),
            ..base.clone()
        })
    }

    /// Returns the files that the image is built from.
    ///
    /// # Errors
    /// If they cannot be read, or have changed.
    pub fn inputs(&self) -> Result<ImageInputs, OwnImageError> {
        match &self.inputs {
            Inputs::Held(inputs) => Ok(inputs.clone()),
            Inputs::Stored(path, file) => {
                let mut file = file;
                file.rewind().map_err(|source| failed("read", path, source))?;
                let (mut definition, inputs) =
                    archive::read(file, |_, _| Ok(())).map_err(|error| damaged(path, &error))?;
                // The image may have been renamed.
                definition.name.clone_from(&self.definition.name);
                if definition != self.definition {
                    return Err(damaged(path, &io::Error::other("it changed while it was open")));
                }
                Ok(inputs)
            }
        }
    }

    /// Returns the files of the wheels, sorted by path below `site-packages`.
    ///
    /// # Errors
    /// As for [`inputs`](Self::inputs).
    pub fn packages(&self) -> Result<Vec<(String, Vec<u8>)>, OwnImageError> {
        if self.definition.wheels.is_empty() {
            return Ok(Vec::new());
        }
        let wheels = match &self.inputs {
            Inputs::Held(inputs) => inputs.wheels.clone(),
            Inputs::Stored(..) => self.inputs()?.wheels,
        };
        Ok(unpack_wheels(wheels.into_iter().map(Ok))?)
    }

    /// Writes the image in the format that [`import`](Self::import) reads. `path` is for error messages.
    ///
    /// # Errors
    /// If its files cannot be read, or writing to `out` fails.
    pub fn export(&self, path: &Path, out: &mut dyn Write) -> Result<(), OwnImageError> {
        let read;
        let inputs = match &self.inputs {
            Inputs::Held(inputs) => inputs,
            Inputs::Stored(..) => {
                read = self.inputs()?;
                &read
            }
        };
        archive::write(&self.definition, inputs, out).map_err(|source| failed("write", path, source))
    }
}

impl OwnImages {
    /// Opens the directory, or creates it. It must belong to the user and be writable by no other user.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, Guarded::Images)? })
    }

    /// Returns the names of the images, sorted.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, CacheError> {
        let names = self.dir.names()?.into_iter().filter_map(|name| Some(name.strip_suffix(SUFFIX)?.to_owned()));
        Ok(names.filter(|name| check_name("name", name).is_ok()).collect())
    }

    /// Returns the image with this name, if there is one. Its input files are not read.
    ///
    /// # Errors
    /// If the image's file is damaged.
    pub fn find(&self, name: &str) -> Result<Option<OwnImage>, OwnImageError> {
        if check_name("name", name).is_err() {
            return Ok(None);
        }
        let Some((file, _)) = self.dir.open_file(&file_name(name))? else { return Ok(None) };
        let path = self.dir.path_of(&file_name(name));
        let definition = archive::read_definition(&file).map_err(|error| damaged(&path, &error))?;
        definition.check()?;
        if definition.name != name {
            let problem = format!("it is the image `{}`, under another name", definition.name);
            return Err(damaged(&path, &io::Error::other(problem)));
        }
        Ok(Some(OwnImage { definition, inputs: Inputs::Stored(path, file) }))
    }

    /// Stores an image, replacing an image of the same name. Returns the path of its file.
    ///
    /// # Errors
    /// If it cannot be written. An existing image then stays.
    pub fn store(&self, image: &OwnImage) -> Result<PathBuf, OwnImageError> {
        let name = file_name(&image.definition.name);
        self.dir.remove_leftovers()?;
        let mut file = self.dir.create()?;
        image.export(&self.dir.path_of(&name), &mut file)?;
        Ok(file.persist(&name)?)
    }

    /// Removes the image with this name. Returns its size in bytes, or `None` if there is no such image. The file is
    /// not parsed, so damaged images can be removed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<Option<u64>, OwnImageError> {
        if check_name("name", name).is_err() {
            return Ok(None);
        }
        let bytes = self.size_bytes(name);
        Ok(self.dir.remove(&file_name(name))?.then_some(bytes))
    }

    /// Returns the size of an image's file in bytes, or 0 if it does not exist.
    #[must_use]
    pub fn size_bytes(&self, name: &str) -> u64 {
        std::fs::symlink_metadata(self.path_of(name)).map_or(0, |metadata| metadata.len())
    }

    /// Returns the path of an image's file.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.dir.path_of(&file_name(name))
    }
}

fn file_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> OwnImageError {
    OwnImageError::File { action, path: path.to_owned(), source }
}

fn damaged(path: &Path, error: &io::Error) -> OwnImageError {
    OwnImageError::Damaged { path: path.to_owned(), problem: error.to_string() }
}

#[cfg(test)]
mod tests;
