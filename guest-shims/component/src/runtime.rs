//! A woven runtime: the weaver's description, its image, and the session whose guest is in its memory.

use std::{collections::BTreeMap, fmt, sync::Arc};

use glovebox_core::{ImageDriver, Language, LibraryMount};
use glovebox_interpreters::{Anchors, Driver, JavaScript, Python};
use serde::Deserialize;

use crate::{Guests, LibraryBytes, bindings::types::SandboxError, library, machine::PAGE_BYTES, session::Residence};

/// A runtime in the woven module, with its driver.
pub struct Runtime {
    /// The guest's number in the woven module.
    pub number: u32,
    /// The runtime's name.
    pub name: String,
    /// The alternative names.
    pub aliases: Vec<String>,
    /// The language of the runtime's scripts.
    pub language: Language,
    /// The interpreter's version.
    pub version: String,
    /// The image's identity: the SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the image's linear memory, in 64 KiB pages.
    pub memory_pages: u32,
    pub(crate) driver: Box<dyn Driver>,
    anchors: Anchors,
    /// The non-zero byte ranges of the image.
    pub image: ImageRuns,
    /// The mutable globals, ordered by number.
    pub globals: Vec<GlobalDescription>,
    /// The globals' values while the guest is idle, sorted by name.
    pub idle_globals: Vec<(String, u64)>,
    exports: Vec<String>,
    /// The standard library, if it is not part of the image.
    pub(crate) library: Option<LibraryMount>,
    /// The session whose guest is in the runtime's memory, if any.
    pub(crate) residence: Residence,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("number", &self.number).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Creates a runtime from the weaver's description.
    ///
    /// # Errors
    /// Fails if the description is invalid. The text describes the problem.
    pub fn new(number: u32, guest: GuestDescription, libraries: &Arc<dyn LibraryBytes>) -> Result<Self, String> {
        let unknown = |what: &str, name: &str| {
            format!("the weaver's description of `{}` has an unknown {what} `{name}`", guest.name)
        };
        let language = guest.language.parse().map_err(|_| unknown("language", &guest.language))?;
        let driver: Box<dyn Driver> = match guest.driver.as_str() {
            "cpython" => Box::new(Python::command()),
            "cpython-reactor" => Box::new(Python::reactor()),
            "quickjs-reactor" => Box::new(JavaScript::reactor()),
            "quickjs-command" => Box::new(JavaScript::command()),
            other => return Err(unknown("driver", other)),
        };
        let GuestDescription {
            name,
            aliases,
            version,
            image_sha256,
            memory_pages,
            anchors,
            exports,
            globals,
            image,
            library,
            ..
        } = guest;
        let image =
            ImageRuns::new(&image).ok_or_else(|| format!("the weaver's description of `{name}` has no image"))?;
        let mut idle_globals: Vec<_> = globals.iter().map(|global| (global.export.clone(), global.value)).collect();
        idle_globals.sort();
        let mounted = |library| {
            let mount = library::mount(number, library, libraries);
            mount.ok_or_else(|| format!("the library in the weaver's description of `{name}` is too long"))
        };
        let library = library.map(mounted).transpose()?;
        Ok(Self {
            number,
            name,
            aliases,
            language,
            version,
            image_sha256,
            memory_pages,
            driver,
            anchors: Anchors(anchors),
            image,
            idle_globals,
            globals,
            exports,
            library,
            residence: Residence::default(),
        })
    }

    /// Returns the size of the image's linear memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_pages) * PAGE_BYTES
    }

    /// Returns the image's driver and anchors.
    #[must_use]
    pub fn driver(&self) -> ImageDriver<'_> {
        ImageDriver { driver: &*self.driver, anchors: &self.anchors }
    }

    /// Resets the globals to their values in the image, which are also their values between calls.
    pub(crate) fn reset_globals(&self, guests: &dyn Guests) {
        for (number, global) in (0..).zip(&self.globals) {
            guests.global_set(self.number, number, global.value);
        }
    }

    /// Returns the number of an exported function that drivers call.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<u32> {
        self.exports.iter().position(|export| export == name).and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the number of a mutable global.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<usize> {
        self.globals.iter().position(|global| global.export == name)
    }

    /// Returns `true` if `name` is the runtime's name or an alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// The weaver's description of all guests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The guests, ordered by number.
    pub guests: Vec<GuestDescription>,
    /// The parameters of the weave.
    pub weave: Weave,
}

/// The weaver's description of one guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// The alternative names.
    pub aliases: Vec<String>,
    /// The language: `python` or `javascript`.
    pub language: String,
    /// The driver's name: `cpython`, `cpython-reactor`, `quickjs-reactor` or `quickjs-command`.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory, in 64 KiB pages.
    pub memory_pages: u32,
    /// The addresses in the image that the driver needs, by name.
    pub anchors: BTreeMap<String, u32>,
    /// The exported functions that the driver calls, ordered by number.
    pub exports: Vec<String>,
    /// The mutable globals, ordered by number.
    pub globals: Vec<GlobalDescription>,
    /// The pristine image, as alternating lengths of zeros and of bytes in its data segment. All further memory is
    /// zero.
    pub image: Vec<u32>,
    /// The standard library, if it is not part of the image.
    #[serde(default)]
    pub library: Option<LibraryDescription>,
}

/// A standard library: an archive in a data segment, followed by the other files in path order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryDescription {
    /// The archive's guest path.
    pub guest_path: String,
    /// The archive's length in bytes.
    pub archive_bytes: u32,
    /// The directory that contains all other files, relative to the archive's directory.
    pub files_directory: String,
    /// The lengths of the other files in bytes, by path relative to the archive's directory.
    pub files: BTreeMap<String, u32>,
}

/// The weaver's description of a mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalDescription {
    /// The global's export name in the prepared module.
    pub export: String,
    /// The global's type: `i32`, `i64`, `f32` or `f64`.
    pub kind: String,
    /// The global's value in the image, as bits.
    pub value: u64,
}

/// The parameters of the weave.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weave {
    /// The weaver's version.
    pub version: String,
    /// The stack limit of calls in guests, in bytes.
    pub stack_bytes: u32,
}

/// A contiguous range of non-zero bytes in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRun {
    /// The address of the first byte.
    pub start: u32,
    /// The length in bytes.
    pub length: u32,
    /// The offset in the image's data segment, where the runs are concatenated.
    pub offset: u32,
}

impl ImageRun {
    /// Returns the first address after the run.
    #[must_use]
    pub fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.length)
    }
}

/// All runs of an image, ordered by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRuns(Vec<ImageRun>);

impl ImageRuns {
    /// Creates runs from alternating lengths of zeros and of bytes in the data segment. Returns `None` if an address
    /// exceeds 32 bits or the last length is missing.
    #[must_use]
    pub fn new(lengths: &[u32]) -> Option<Self> {
        let (pairs, rest) = lengths.as_chunks();
        let (mut end, mut offset) = (0u32, 0u32);
        let runs = pairs.iter().map(|&[zeros, length]| {
            let start = end.checked_add(zeros)?;
            let run = ImageRun { start, length, offset };
            (end, offset) = (start.checked_add(length)?, offset.checked_add(length)?);
            Some(run)
        });
        runs.collect::<Option<_>>().filter(|_| rest.is_empty()).map(Self)
    }

    /// Returns all runs.
    #[must_use]
    pub fn all(&self) -> &[ImageRun] {
        &self.0
    }

    /// Returns the runs that overlap the address range from `start` to `end`.
    pub fn runs_in(&self, start: u64, end: u64) -> impl Iterator<Item = &ImageRun> {
        let first = self.0.partition_point(|run| run.end() <= start);
        self.0.iter().skip(first).take_while(move |run| u64::from(run.start) < end)
    }
}

/// Returns the error for a guest that is in the middle of a call.
pub(crate) fn busy() -> SandboxError {
    SandboxError::Unavailable("a guest of this runtime is running; try again after its call has returned".into())
}

#[cfg(test)]
mod tests {
    use super::{ImageRun, ImageRuns};

    #[test]
    fn image_runs_are_built_from_lengths() {
        let runs = ImageRuns::new(&[100, 3, 40, 7]).unwrap();
        let (one, other) =
            (ImageRun { start: 100, length: 3, offset: 0 }, ImageRun { start: 143, length: 7, offset: 3 });
        assert_eq!(runs.all(), [one, other]);
        let within = |start, end| runs.runs_in(start, end).copied().collect::<Vec<_>>();
        assert_eq!(within(0, 100), []);
        assert_eq!(within(0, 101), [one]);
        assert_eq!(within(102, 143), [one]);
        assert_eq!(within(102, 144), [one, other]);
        assert_eq!(within(103, 144), [other]);
        assert_eq!(within(150, u64::MAX), []);
    }

    #[test]
    fn invalid_image_lengths_are_rejected() {
        assert_eq!(ImageRuns::new(&[]), Some(ImageRuns::default()));
        assert_eq!(ImageRuns::new(&[1]), None);
        assert!(ImageRuns::new(&[u32::MAX - 1, 1]).is_some());
        assert_eq!(ImageRuns::new(&[u32::MAX - 1, 2]), None);
        assert_eq!(ImageRuns::new(&[u32::MAX - 1, 1, 1, 1]), None);
    }
}
