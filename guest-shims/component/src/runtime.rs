//! A woven runtime.

use std::{fmt, sync::Arc};

use glovebox_core::{ImageDriver, Language, LibraryMount};
use glovebox_interpreters::{Anchors, Driver, JavaScript, Python};

use crate::{
    GlobalDescription, GuestDescription, Guests, ImageRuns, LibraryBytes, memory::PAGE_BYTES, residence::Residence,
    standard_library,
};

/// A runtime: its description by the weaver, and its driver.
pub struct Runtime {
    /// The guest's number.
    pub number: u32,
    /// The runtime's name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// The language of its scripts.
    pub language: Language,
    /// The interpreter's version.
    pub version: String,
    /// The identity of the image: the SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the image's memory in 64 KiB pages.
    pub memory_pages: u32,
    pub(crate) driver: Box<dyn Driver>,
    anchors: Anchors,
    /// The non-zero parts of the image.
    pub image: ImageRuns,
    /// The mutable globals, by number.
    pub globals: Vec<GlobalDescription>,
    /// The values of the globals while the guest is idle, sorted by name.
    pub idle_globals: Vec<(String, u64)>,
    exports: Vec<String>,
    /// The standard library, if it is a separate file.
    pub(crate) library: Option<LibraryMount>,
    /// The session's guest in the memory, if there is one.
    pub(crate) residence: Residence,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("number", &self.number).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Parses a description.
    ///
    /// # Errors
    /// The description is invalid; the text names the problem.
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
            let mount = standard_library::mount(number, library, libraries);
            mount.ok_or_else(|| format!("the weaver's description of `{name}` has a library that is too long"))
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

    /// Returns the size of the image's memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_pages) * PAGE_BYTES
    }

    /// Returns the image's driver with its addresses.
    #[must_use]
    pub fn driver(&self) -> ImageDriver<'_> {
        ImageDriver { driver: &*self.driver, anchors: &self.anchors }
    }

    /// Resets the globals to their values in the image, which they also have between calls.
    pub(crate) fn reset_globals(&self, guests: &dyn Guests) {
        for (number, global) in (0..).zip(&self.globals) {
            guests.global_set(self.number, number, global.value);
        }
    }

    /// Returns the index of a function that drivers call.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<u32> {
        self.exports.iter().position(|export| export == name).and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the index of a mutable global.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<usize> {
        self.globals.iter().position(|global| global.export == name)
    }

    /// Returns whether `name` is the runtime's name or an alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}
