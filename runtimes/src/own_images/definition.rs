//! What an image of the user's own is made of.

use std::collections::BTreeSet;

use glovebox_vfs::escaped;
use serde::{Deserialize, Serialize};

use super::error::OwnImageError;
use crate::manifest::check_name;
use crate::{Digest, MAX_OWN_PACKAGES, MAX_OWN_PACKAGES_BYTES, SetupStep};

/// The version of a definition's form.
const FORMAT: u32 = 1;

/// The most code that the setups of one image have together, in bytes.
pub const MAX_IMAGE_CODE_BYTES: usize = 1 << 20;
/// The most setups one after the other: an image of an image of an image has three.
pub const MAX_IMAGE_STEPS: usize = 16;
/// The most modules that one setup preloads.
pub const MAX_IMAGE_PRELOADED: usize = 256;
/// The most files that a setup finds.
pub const MAX_IMAGE_FILES: usize = 1_024;
/// The most bytes that they have together.
pub const MAX_IMAGE_FILE_BYTES: u64 = 256 << 20;
/// The least memory that an interpreter boots in, with room for a setup.
const MIN_MEMORY_BYTES: u64 = 128 << 20;
/// The most memory that the setups of an image may use: all that a guest can have.
pub const MAX_IMAGE_MEMORY_BYTES: u64 = 4 << 30;
/// The longest that one setup may take, in milliseconds: an hour.
pub const MAX_IMAGE_TIMEOUT_MS: u64 = 3_600_000;

/// The longest path of a file, as the guest's file system allows below `/app`.
const MAX_PATH_BYTES: usize = 1_024;
/// The directory in `/app` that packages are mounted at.
const PACKAGES: &str = "site-packages";
/// The longest name of a module.
const MAX_MODULE_BYTES: usize = 200;

/// What an image of the user's own is made of, apart from the content of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageDefinition {
    pub(super) format: u32,
    /// Its name.
    pub name: String,
    /// The runtime of the manifest whose interpreter it is an image of.
    pub runtime: String,
    /// That runtime's binary.
    pub runtime_sha256: Digest,
    /// What runs in the booted interpreter, in this order.
    pub steps: Vec<SetupStep>,
    /// Wheels of pure Python, which scripts can import as well.
    pub wheels: Vec<InputFile>,
    /// Files that the setups find in `/app`.
    pub files: Vec<InputFile>,
    /// The most memory the setups may use.
    pub memory_bytes: u64,
    /// The longest that one setup may take.
    pub timeout_ms: u64,
}

/// A file that an image is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// A wheel's file name, or a path below `/app`.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

impl InputFile {
    fn of((path, bytes): &(String, Vec<u8>)) -> Self {
        Self { path: path.clone(), size_bytes: bytes.len() as u64, sha256: Digest::of(bytes) }
    }
}

/// The files that an image is made of: their paths and contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageInputs {
    /// As [`ImageDefinition::wheels`].
    pub wheels: Vec<(String, Vec<u8>)>,
    /// As [`ImageDefinition::files`].
    pub files: Vec<(String, Vec<u8>)>,
}

impl ImageDefinition {
    /// Describes an image.
    pub fn new(
        name: &str,
        (runtime, runtime_sha256): (&str, Digest),
        steps: Vec<SetupStep>,
        inputs: &ImageInputs,
        (memory_bytes, timeout_ms): (u64, u64),
    ) -> Self {
        Self {
            format: FORMAT,
            name: name.to_owned(),
            runtime: runtime.to_owned(),
            runtime_sha256,
            steps,
            wheels: inputs.wheels.iter().map(InputFile::of).collect(),
            files: inputs.files.iter().map(InputFile::of).collect(),
            memory_bytes,
            timeout_ms,
        }
    }

    /// Its files, in the order of the archive.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &InputFile> {
        self.wheels.iter().chain(&self.files)
    }

    /// The digest of everything that determines the image: not its name, and not the limits of its setup.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let preloaded = |step: &SetupStep| step.preload.join("\n");
        let setups =
            self.steps.iter().map(|step| Digest::of_fields(&[preloaded(step).as_bytes(), step.code.as_bytes()]));
        let files = |files: &[InputFile]| {
            let digests = files.iter().map(|file| Digest::of_fields(&[file.path.as_bytes(), file.sha256.as_bytes()]));
            whole(digests)
        };
        whole([self.runtime_sha256, whole(setups), files(&self.wheels), files(&self.files)])
    }

    /// Checks what a user or somebody's file says.
    ///
    /// # Errors
    /// [`OwnImageError::Invalid`] names what is wrong.
    pub fn check(&self) -> Result<(), OwnImageError> {
        let invalid = |problem: String| Err(OwnImageError::Invalid { name: self.name.clone(), problem });
        check_name("name", &self.name).map_err(|_| OwnImageError::Name(self.name.clone()))?;
        if self.format != FORMAT {
            return invalid(format!("it has format {}, and this version reads {FORMAT}", self.format));
        }
        let memory_range = MIN_MEMORY_BYTES..=MAX_IMAGE_MEMORY_BYTES;
        if !memory_range.contains(&self.memory_bytes) {
            let (least, most) = (memory_range.start(), memory_range.end());
            return invalid(format!("{} bytes of memory are not between {least} and {most}", self.memory_bytes));
        }
        if self.timeout_ms == 0 || self.timeout_ms > MAX_IMAGE_TIMEOUT_MS {
            return invalid(format!("a setup may take from 1 to {MAX_IMAGE_TIMEOUT_MS} ms"));
        }
        if self.steps.len() > MAX_IMAGE_STEPS {
            return invalid(format!("it has more than {MAX_IMAGE_STEPS} setups"));
        }
        let code_bytes: usize = self.steps.iter().map(|step| step.code.len()).sum();
        if code_bytes > MAX_IMAGE_CODE_BYTES {
            return invalid(format!("its setups have {code_bytes} bytes, more than {MAX_IMAGE_CODE_BYTES}"));
        }
        for step in &self.steps {
            if step.preload.len() > MAX_IMAGE_PRELOADED {
                return invalid(format!("it preloads more than {MAX_IMAGE_PRELOADED} modules"));
            }
            if let Some(module) = step.preload.iter().find(|module| !is_module(module)) {
                return invalid(format!("`{}` is not the name of a module", escaped(module)));
            }
        }
        if self.wheels.len() > MAX_OWN_PACKAGES {
            return invalid(format!("it has more than {MAX_OWN_PACKAGES} wheels"));
        }
        let wheel_bytes = self.wheels.iter().fold(0u64, |sum, wheel| sum.saturating_add(wheel.size_bytes));
        if wheel_bytes > MAX_OWN_PACKAGES_BYTES {
            return invalid(format!("its wheels have {wheel_bytes} bytes, more than {MAX_OWN_PACKAGES_BYTES}"));
        }
        if self.files.len() > MAX_IMAGE_FILES {
            return invalid(format!("it has {} files, more than {MAX_IMAGE_FILES}", self.files.len()));
        }
        let file_bytes = self.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size_bytes));
        if file_bytes > MAX_IMAGE_FILE_BYTES {
            return invalid(format!("its files have {file_bytes} bytes, more than {MAX_IMAGE_FILE_BYTES}"));
        }
        let mut paths = BTreeSet::new();
        for InputFile { path, .. } in &self.files {
            if !is_path(path) {
                return invalid(format!("`{}` is not a path below `/app`", escaped(path)));
            }
            if path.split('/').next() == Some(PACKAGES) {
                return invalid(format!("`{path}` lies where packages are; give a wheel, or another path"));
            }
            if !paths.insert(path.as_str()) {
                return invalid(format!("it has two files `{path}`"));
            }
        }
        let nested = paths.iter().find_map(|path| {
            let (mut above, mut found) = (*path, None);
            while let Some((directory, _)) = above.rsplit_once('/') {
                found = found.or_else(|| paths.get(directory).copied());
                above = directory;
            }
            found
        });
        match nested {
            Some(path) => invalid(format!("`{path}` is a file and a directory")),
            None => Ok(()),
        }
    }
}

fn whole(digests: impl IntoIterator<Item = Digest>) -> Digest {
    let digests: Vec<Digest> = digests.into_iter().collect();
    let fields: Vec<&[u8]> = digests.iter().map(|digest| digest.as_bytes().as_slice()).collect();
    Digest::of_fields(&fields)
}

/// Whether a text can be imported: it becomes part of a script.
fn is_module(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_.:/@-".contains(c);
    !name.is_empty() && name.len() <= MAX_MODULE_BYTES && name.chars().all(plain)
}

fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
}
