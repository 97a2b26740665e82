//! Definitions of custom images.

use std::collections::BTreeSet;

use glovebox_vfs::escaped;
use serde::{Deserialize, Serialize};

use super::CustomImageError;
use crate::{Digest, MAX_USER_PACKAGES, MAX_USER_PACKAGES_BYTES, SetupStep, manifest::check_name};

/// The version of the definition format.
const FORMAT: u32 = 1;

/// Maximum total size of an image's setup code, in bytes.
pub const MAX_IMAGE_CODE_BYTES: usize = 1 << 20;
/// Maximum number of setups in an image, including the setups of the images that it is based on.
pub const MAX_IMAGE_STEPS: usize = 16;
/// Maximum number of modules that one setup preloads.
pub const MAX_IMAGE_PRELOADED: usize = 256;
/// Maximum number of files that an image's setups can read.
pub const MAX_IMAGE_FILES: usize = 1_024;
/// Maximum total size of an image's files, in bytes.
pub const MAX_IMAGE_FILE_BYTES: u64 = 256 << 20;
/// Minimum memory limit for an image's setups, in bytes: enough to boot an interpreter and run a setup.
const MIN_MEMORY_BYTES: u64 = 128 << 20;
/// Maximum memory limit for an image's setups, in bytes: the size of a guest's address space.
pub const MAX_IMAGE_MEMORY_BYTES: u64 = 4 << 30;
/// Maximum timeout of one setup: one hour, in milliseconds.
pub const MAX_IMAGE_TIMEOUT_MS: u64 = 3_600_000;

/// Maximum length of a file's path below `/app`, in bytes: the limit of the guest's file system.
const MAX_PATH_BYTES: usize = 1_024;
/// The directory in `/app` where packages are mounted.
const PACKAGES: &str = "site-packages";
/// Maximum length of a module's name in bytes.
const MAX_MODULE_BYTES: usize = 200;

/// The definition of a custom image, without the contents of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageDefinition {
    pub(super) format: u32,
    /// The name of the image.
    pub name: String,
    /// The name of the base runtime in the manifest.
    pub runtime: String,
    /// The digest of the base runtime's binary.
    pub runtime_sha256: Digest,
    /// Setups that run in the booted interpreter, in order.
    pub steps: Vec<SetupStep>,
    /// Pure Python wheels, which setups and scripts can import.
    pub wheels: Vec<InputFile>,
    /// Files that the setups can read in `/app`.
    pub files: Vec<InputFile>,
    /// The memory limit for the setups, in bytes.
    pub memory_bytes: u64,
    /// The timeout of each setup, in milliseconds. Covers both the preload and the script.
    pub timeout_ms: u64,
}

/// A file that an image is built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// The file name of a wheel, or a path below `/app`.
    pub path: String,
    /// The size of the contents in bytes.
    pub size_bytes: u64,
    /// The digest of the contents.
    pub sha256: Digest,
}

impl InputFile {
    fn of((path, bytes): &(String, Vec<u8>)) -> Self {
        Self { path: path.clone(), size_bytes: bytes.len() as u64, sha256: Digest::of(bytes) }
    }
}

/// The paths and contents of the files that an image is built from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageInputs {
    /// The contents of [`ImageDefinition::wheels`].
    pub wheels: Vec<(String, Vec<u8>)>,
    /// The contents of [`ImageDefinition::files`].
    pub files: Vec<(String, Vec<u8>)>,
}

impl ImageDefinition {
    /// Creates the definition of an image.
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

    /// Returns the wheels and files, in the order of the archive.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &InputFile> {
        self.wheels.iter().chain(&self.files)
    }

    /// Returns the digest of all inputs that determine the image. The name and the setups' limits do not affect the
    /// digest.
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

    /// Checks this definition, which can come from an untrusted file.
    ///
    /// # Errors
    /// Returns [`CustomImageError::Name`], or [`CustomImageError::Invalid`] with the violated rule.
    pub fn check(&self) -> Result<(), CustomImageError> {
        let invalid = |problem: String| Err(CustomImageError::Invalid { name: self.name.clone(), problem });
        check_name("name", &self.name).map_err(|_| CustomImageError::Name(self.name.clone()))?;
        if self.format != FORMAT {
            return invalid(format!("it has format {}, but this version reads {FORMAT}; build it again", self.format));
        }
        let memory_range = MIN_MEMORY_BYTES..=MAX_IMAGE_MEMORY_BYTES;
        if !memory_range.contains(&self.memory_bytes) {
            let (min, max) = (memory_range.start(), memory_range.end());
            let memory_bytes = self.memory_bytes;
            return invalid(format!("the memory limit is {memory_bytes} bytes; it must be between {min} and {max}"));
        }
        if self.timeout_ms == 0 || self.timeout_ms > MAX_IMAGE_TIMEOUT_MS {
            return invalid(format!(
                "the time limit is {} ms; it must be between 1 and {MAX_IMAGE_TIMEOUT_MS}",
                self.timeout_ms
            ));
        }
        if self.steps.len() > MAX_IMAGE_STEPS {
            return invalid(format!("it has more than {MAX_IMAGE_STEPS} setups; combine some of them"));
        }
        let code_bytes: usize = self.steps.iter().map(|step| step.code.len()).sum();
        if code_bytes > MAX_IMAGE_CODE_BYTES {
            return invalid(format!(
                "the code of its setups is {code_bytes} bytes; the maximum is {MAX_IMAGE_CODE_BYTES}; shorten it"
            ));
        }
        for step in &self.steps {
            if step.preload.len() > MAX_IMAGE_PRELOADED {
                return invalid(format!("it preloads more than {MAX_IMAGE_PRELOADED} modules; preload fewer modules"));
            }
            if let Some(module) = step.preload.iter().find(|module| !is_module(module)) {
                return invalid(format!("`{}` is not the name of a module", escaped(module)));
            }
        }
        if self.wheels.len() > MAX_USER_PACKAGES {
            return invalid(format!("it has more than {MAX_USER_PACKAGES} wheels; use fewer wheels"));
        }
        let wheel_bytes = self.wheels.iter().fold(0u64, |sum, wheel| sum.saturating_add(wheel.size_bytes));
        if wheel_bytes > MAX_USER_PACKAGES_BYTES {
            return invalid(format!(
                "its wheels are {wheel_bytes} bytes in total; the maximum is {MAX_USER_PACKAGES_BYTES}; \
                 use fewer wheels"
            ));
        }
        if self.files.len() > MAX_IMAGE_FILES {
            let count = self.files.len();
            return invalid(format!("it has {count} files; the maximum is {MAX_IMAGE_FILES}; use fewer files"));
        }
        let file_bytes = self.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size_bytes));
        if file_bytes > MAX_IMAGE_FILE_BYTES {
            return invalid(format!(
                "its files are {file_bytes} bytes in total; the maximum is {MAX_IMAGE_FILE_BYTES}; use fewer files"
            ));
        }
        let mut paths = BTreeSet::new();
        for InputFile { path, .. } in &self.files {
            if !is_path(path) {
                return invalid(format!(
                    "`{}` is not a valid file path; use a path relative to `/app`, without empty, `.` or `..` parts or \
                     control characters, of at most {MAX_PATH_BYTES} bytes (255 for each part)",
                    escaped(path)
                ));
            }
            if path.split('/').next() == Some(PACKAGES) {
                return invalid(format!("`{path}` is inside the packages directory; use a wheel, or another path"));
            }
            if !paths.insert(path.as_str()) {
                return invalid(format!("it has the file `{path}` twice"));
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
        nested.map_or(Ok(()), |path| invalid(format!("`{path}` is a file and a directory")))
    }
}

fn whole(digests: impl IntoIterator<Item = Digest>) -> Digest {
    let digests: Vec<Digest> = digests.into_iter().collect();
    let fields: Vec<&[u8]> = digests.iter().map(|digest| digest.as_bytes().as_slice()).collect();
    Digest::of_fields(&fields)
}

/// Returns `true` if a module's name is safe to insert into a script.
fn is_module(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_.:/@-".contains(c);
    !name.is_empty() && name.len() <= MAX_MODULE_BYTES && name.chars().all(plain)
}

fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
}
