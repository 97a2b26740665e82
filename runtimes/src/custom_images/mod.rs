//! Custom images: the memory of interpreters in which a setup has run. A file in a user directory describes each image.
//!
//! The file contains the inputs for building the image. The built image is stored in the cache, and is rebuilt if it is
//! missing. The file contains no native code, so an untrusted file cannot run code outside the sandbox.

mod definition;

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use glovebox_vfs::{escaped, escaped_text};
use tar::{Archive, Builder, Entry, EntryType, Header};

use crate::{
    CacheError, Digest, ImageOf, Manifest, RuntimeEntry, UserPackageError,
    guard::GuardedDirectory,
    manifest::check_name,
    trusted_dir::TrustedDir,
    user_packages::{check_wheel, check_wheels, unpack_wheels},
    wheel_files::MAX_WHEEL_BYTES,
};

pub use definition::{
    ImageDefinition, ImageInputs, InputFile, MAX_IMAGE_CODE_BYTES, MAX_IMAGE_FILE_BYTES, MAX_IMAGE_FILES,
    MAX_IMAGE_MEMORY_BYTES, MAX_IMAGE_PRELOADED, MAX_IMAGE_STEPS, MAX_IMAGE_TIMEOUT_MS,
};

const SUFFIX: &str = ".tar";

/// A directory of custom images.
#[derive(Debug)]
pub struct CustomImages {
    dir: TrustedDir,
}

/// A custom image.
#[derive(Debug)]
pub struct CustomImage {
    definition: ImageDefinition,
    inputs: Inputs,
}

/// The location of the image's inputs.
#[derive(Debug)]
enum Inputs {
    Held(ImageInputs),
    Stored(PathBuf, File),
}

impl CustomImage {
    /// Creates an image without storing it. `taken` lists the modules of other packages, each with its owner.
    ///
    /// # Errors
    /// Fails if the definition is invalid or a wheel cannot be used.
    pub fn new(
        definition: ImageDefinition,
        inputs: ImageInputs,
        taken: &[(String, String)],
    ) -> Result<Self, CustomImageError> {
        definition.check()?;
        check_wheels(&inputs.wheels, taken)?;
        Ok(Self { definition, inputs: Inputs::Held(inputs) })
    }

    /// Reads an exported image and verifies its inputs, which stay in the file until they are needed.
    ///
    /// # Errors
    /// Fails if the file is not an image or is damaged, if its definition is invalid, or if a wheel cannot be used.
    pub fn import(path: &Path, taken: &[(String, String)]) -> Result<Self, CustomImageError> {
        let file = File::open(path).map_err(|source| failed("read", path, source))?;
        let check = |name: &str, bytes: &[u8]| check_wheel(name, bytes).map_err(io::Error::other);
        let (definition, inputs) = read_archive(&file, check).map_err(|error| damaged(path, &error))?;
        check_wheels(&inputs.wheels, taken)?;
        Ok(Self { definition, inputs: Inputs::Stored(path.to_owned(), file) })
    }

    /// Renames the image.
    ///
    /// # Errors
    /// Fails if the name is not a valid image name.
    pub fn named(mut self, name: &str) -> Result<Self, CustomImageError> {
        name.clone_into(&mut self.definition.name);
        self.definition.check()?;
        Ok(self)
    }

    /// Returns the definition.
    pub fn definition(&self) -> &ImageDefinition {
        &self.definition
    }

    /// Returns the runtime entry for the image.
    ///
    /// # Errors
    /// Fails if the manifest's interpreter is missing, or differs from the interpreter that the image was made for.
    pub fn entry(&self, manifest: &Manifest) -> Result<RuntimeEntry, CustomImageError> {
        let ImageDefinition { name, runtime, runtime_sha256, steps, .. } = &self.definition;
        let base = manifest.runtimes().iter().find(|entry| entry.image.is_none() && entry.name == *runtime);
        let base = base.filter(|entry| entry.sha256 == *runtime_sha256);
        let base = base.ok_or_else(|| CustomImageError::Outdated { name: name.clone(), runtime: runtime.clone() })?;
        Ok(RuntimeEntry {
            name: name.clone(),
            aliases: Vec::new(),
            default: false,
            origin: format!("A custom image of `{runtime}`"),
            image: Some(ImageOf { runtime: runtime.clone(), modules: Vec::new(), steps: steps.clone() }),
            ..base.clone()
        })
    }

    /// Returns the wheels and files that the image is built from.
    ///
    /// # Errors
    /// Fails if the image's file cannot be read or has changed.
    pub fn inputs(&self) -> Result<ImageInputs, CustomImageError> {
        match &self.inputs {
            Inputs::Held(inputs) => Ok(inputs.clone()),
            Inputs::Stored(path, file) => {
                let mut file = file;
                file.rewind().map_err(|source| failed("read", path, source))?;
                let (mut definition, inputs) =
                    read_archive(file, |_, _| Ok(())).map_err(|error| damaged(path, &error))?;
                // The image may have been renamed since it was stored.
                definition.name.clone_from(&self.definition.name);
                if definition != self.definition {
                    return Err(CustomImageError::Changed { path: path.clone() });
                }
                Ok(inputs)
            }
        }
    }

    /// Returns the files of the wheels, sorted by path below `site-packages`.
    ///
    /// # Errors
    /// Fails if the image's file cannot be read or has changed, or a wheel cannot be unpacked.
    pub fn packages(&self) -> Result<Vec<(String, Vec<u8>)>, CustomImageError> {
        if self.definition.wheels.is_empty() {
            return Ok(Vec::new());
        }
        let wheels = match &self.inputs {
            Inputs::Held(inputs) => inputs.wheels.clone(),
            Inputs::Stored(..) => self.inputs()?.wheels,
        };
        Ok(unpack_wheels(wheels.into_iter().map(Ok))?)
    }

    /// Writes the image in the format that [`import`](Self::import) reads. `path` is only used in error messages.
    ///
    /// # Errors
    /// Fails if the image's inputs cannot be read, or writing to `out` fails.
    pub fn export(&self, path: &Path, out: &mut dyn Write) -> Result<(), CustomImageError> {
        let read;
        let inputs = match &self.inputs {
            Inputs::Held(inputs) => inputs,
            Inputs::Stored(..) => {
                read = self.inputs()?;
                &read
            }
        };
        write_archive(&self.definition, inputs, out).map_err(|source| failed("write", path, source))
    }
}

impl CustomImages {
    /// Opens or creates the directory. The directory must belong to the user and must not be writable by other users.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened or created, or does not meet these conditions.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { dir: TrustedDir::open(path, GuardedDirectory::Images)? })
    }

    /// Returns the names of the images, sorted.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, CacheError> {
        let names = self.dir.names()?.into_iter().filter_map(|name| Some(name.strip_suffix(SUFFIX)?.to_owned()));
        Ok(names.filter(|name| check_name("name", name).is_ok()).collect())
    }

    /// Returns the image with this name, or `None` if the image does not exist. Does not read the image's inputs.
    ///
    /// # Errors
    /// Fails if the image's file cannot be read or is damaged.
    pub fn find(&self, name: &str) -> Result<Option<CustomImage>, CustomImageError> {
        if check_name("name", name).is_err() {
            return Ok(None);
        }
        let Some((file, _)) = self.dir.open_file(&file_name(name))? else { return Ok(None) };
        let path = self.dir.path_of(&file_name(name));
        let definition = read_definition(&file).map_err(|error| damaged(&path, &error))?;
        definition.check()?;
        if definition.name != name {
            return Err(CustomImageError::Renamed { path, name: definition.name });
        }
        Ok(Some(CustomImage { definition, inputs: Inputs::Stored(path, file) }))
    }

    /// Stores an image, replacing any image with the same name. Returns the path of the image's file.
    ///
    /// # Errors
    /// Fails if the image's inputs cannot be read, or if the image cannot be written. A failure does not change the
    /// existing image.
    pub fn store(&self, image: &CustomImage) -> Result<PathBuf, CustomImageError> {
        let name = file_name(&image.definition.name);
        self.dir.remove_leftovers()?;
        let mut file = self.dir.create()?;
        image.export(&self.dir.path_of(&name), &mut file)?;
        Ok(file.persist(&name)?)
    }

    /// Removes the image with this name. Returns its size in bytes, or `None` if the image does not exist. The file is
    /// not parsed, so damaged images can also be removed.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<Option<u64>, CustomImageError> {
        if check_name("name", name).is_err() {
            return Ok(None);
        }
        let bytes = self.size_bytes(name);
        Ok(self.dir.remove(&file_name(name))?.then_some(bytes))
    }

    /// Returns the size of an image's file in bytes, or 0 if the file does not exist.
    pub fn size_bytes(&self, name: &str) -> u64 {
        std::fs::symlink_metadata(self.path_of(name)).map_or(0, |metadata| metadata.len())
    }

    /// Returns the path of an image's file.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.dir.path_of(&file_name(name))
    }
}

fn file_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> CustomImageError {
    CustomImageError::File { action, path: path.to_owned(), source }
}

fn damaged(path: &Path, error: &io::Error) -> CustomImageError {
    CustomImageError::Damaged { path: path.to_owned(), problem: error.to_string() }
}

/// The name of the archive's first entry, the definition.
const DEFINITION: &str = "image.json";
/// Maximum size of the definition, in bytes: enough for the longest setup code after JSON escaping, and for the longest
/// list of files.
const MAX_DEFINITION_BYTES: u64 = 16 << 20;

fn write_archive(definition: &ImageDefinition, inputs: &ImageInputs, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    let text = serde_json::to_vec_pretty(definition)?;
    append(&mut archive, DEFINITION, &text)?;
    for (at, (_, bytes)) in inputs.wheels.iter().chain(&inputs.files).enumerate() {
        append(&mut archive, &input_name(at), bytes)?;
    }
    archive.into_inner()?.flush()
}

/// Returns the name of an input's archive entry: its position. Paths are stored only in the definition, because long
/// entry names need tar extensions.
fn input_name(at: usize) -> String {
    format!("inputs/{at}")
}

fn append(archive: &mut Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    header.set_path(name)?;
    header.set_cksum();
    archive.append(&header, bytes)
}

fn read_definition(file: impl Read) -> io::Result<ImageDefinition> {
    let mut archive = Archive::new(file);
    // Read raw entries. Otherwise, the parser would read extension headers into memory, which can be as long as the
    // archive.
    let mut entries = archive.entries()?.raw(true);
    definition_of(entries.next())
}

/// Reads an image and verifies the digests of its inputs. Passes each wheel to `check` before reading the next wheel.
fn read_archive(
    file: impl Read,
    mut check: impl FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<(ImageDefinition, ImageInputs)> {
    let mut archive = Archive::new(file);
    let mut entries = archive.entries()?.raw(true);
    let definition = definition_of(entries.next())?;
    // Check the definition before allocating memory for the sizes that it declares.
    definition.check().map_err(|error| invalid(error.to_string()))?;
    let mut contents = Vec::new();
    for (at, input) in definition.inputs().enumerate() {
        let is_wheel = at < definition.wheels.len();
        if is_wheel && input.size_bytes > MAX_WHEEL_BYTES {
            return Err(invalid(format!("its file `{}` is larger than {MAX_WHEEL_BYTES} bytes", escaped(&input.path))));
        }
        let bytes = content(entries.next(), &input_name(at), input.size_bytes)?;
        if bytes.len() as u64 != input.size_bytes || Digest::of(&bytes) != input.sha256 {
            return Err(invalid(format!("its file `{}` does not match the definition", escaped(&input.path))));
        }
        if is_wheel {
            check(&input.path, &bytes)?;
        }
        contents.push((input.path.clone(), bytes));
    }
    let files = contents.split_off(definition.wheels.len());
    Ok((definition, ImageInputs { wheels: contents, files }))
}

fn definition_of<R: Read>(entry: Option<io::Result<Entry<'_, R>>>) -> io::Result<ImageDefinition> {
    let text = content(entry, DEFINITION, MAX_DEFINITION_BYTES)?;
    Ok(serde_json::from_slice(&text)?)
}

fn content<R: Read>(entry: Option<io::Result<Entry<'_, R>>>, name: &str, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let missing = || invalid(format!("`{name}` is missing or in the wrong place"));
    let entry = entry.ok_or_else(missing)??;
    if entry.header().entry_type() != EntryType::Regular || &*entry.path_bytes() != name.as_bytes() {
        return Err(missing());
    }
    let mut bytes = Vec::new();
    entry.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(invalid(format!("its file `{name}` is larger than {limit_bytes} bytes")));
    }
    Ok(bytes)
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Errors from defining, storing or reading a custom image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomImageError {
    /// The name is not a valid image name.
    #[error(
        "`{name}` is not a valid image name; use 1 to 64 letters, digits, `.`, `-`, `_`, `+` or `!`, starting with a letter or digit",
        name = escaped(.0)
    )]
    Name(String),
    /// No image has this name.
    #[error("there is no custom image `{name}`; list images with `glovebox image list`", name = escaped(.0))]
    Missing(String),
    /// An image with this name already exists.
    #[error("image `{name}` already exists; remove it first, or replace it with `--replace`", name = escaped(.0))]
    Taken(String),
    /// A runtime already has this name.
    #[error("`{name}` is the name of a built-in runtime; choose another name for the image", name = escaped(.0))]
    Runtime(String),
    /// The definition is invalid.
    #[error("image `{name}`: {problem}", name = escaped(.name), problem = escaped_text(.problem))]
    Invalid {
        /// The name of the image.
        name: String,
        /// The limit or rule that the definition violates.
        problem: String,
    },
    /// The image was built for a different version of its interpreter.
    #[error(
        "image `{name}` was built for another version of `{runtime}`; build it again", name = escaped(.name), runtime = escaped(.runtime)
    )]
    Outdated {
        /// The name of the image.
        name: String,
        /// The name of the base runtime.
        runtime: String,
    },
    /// A wheel is invalid or conflicts with another package.
    #[error(transparent)]
    Wheel(#[from] UserPackageError),
    /// The file is not an exported image, or is damaged.
    #[error("`{path}` is not an image, or is damaged: {problem}; use an undamaged copy, or build the image again", path = escaped(.path), problem = escaped_text(.problem))]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The message of the error from reading the file.
        problem: String,
    },
    /// The file of a stored image was renamed.
    #[error("`{path}` contains the image `{name}`; rename the file to `{name}{SUFFIX}`, or delete it", path = escaped(.path), name = escaped(.name))]
    Renamed {
        /// The path of the file.
        path: PathBuf,
        /// The name of the image in the file.
        name: String,
    },
    /// The file of a stored image changed while the image was in use.
    #[error("`{path}` changed while the image was in use; try again", path = escaped(.path))]
    Changed {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}`", path = escaped(.path))]
    File {
        /// The name of the operation.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The directory of images cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}

#[cfg(test)]
mod tests;
