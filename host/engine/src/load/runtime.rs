//! A runtime that is ready to run: its compiled module and its driver.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use glovebox_core::{ImageDriver, LibraryMount, Limits, MemoryLimit};
use glovebox_interpreters::{Anchors, Boot, Driver, JavaScript, Python};
use glovebox_runtimes::{Binary, DriverKind, ImageRecord, Recipe};
use glovebox_vfs::MountSource;
use wasmtime::Module;

use crate::{
    ExecuteError, Language,
    guest::{instantiate::Template, recycled::RecycledInstances},
    session::Pristine,
};

/// A loaded runtime, shared by all sandboxes that use it.
pub(crate) struct Runtime {
    /// The name in the manifest, or the path of a custom binary.
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) version: Option<String>,
    pub(crate) template: Template,
    pub(crate) drive: Drive,
    /// The standard library, if it is a separate file.
    pub(crate) library: Option<LibraryMount>,
    /// Packages at `/app/site-packages`, if they differ from those of other runtimes.
    pub(crate) packages: Option<Arc<dyn MountSource>>,
    /// Recycled instances, if instances can be restored to an image.
    pub(crate) recycled: Option<RecycledInstances>,
}

/// The way to run guests of a runtime.
pub(crate) enum Drive {
    /// By calls into a prepared image.
    Image(Arc<Image>),
    /// As a plain command: `_start` with the script's path as argument.
    Command {
        /// Arguments before the path.
        flags: &'static [&'static str],
    },
}

/// A prepared image.
pub(crate) struct Image {
    driver: Box<dyn Driver>,
    anchors: Anchors,
    /// The digest of the rewritten module, in hexadecimal: equal images have equal digests.
    pub(crate) identity: String,
    pub(crate) memory_bytes: u64,
    memory: Module,
    globals: BTreeMap<String, u64>,
    pristine: OnceLock<Pristine>,
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

    /// Returns the pristine image, loaded at first use.
    pub(crate) fn pristine(&self) -> Result<&Pristine, ExecuteError> {
        if let Some(pristine) = self.pristine.get() {
            return Ok(pristine);
        }
        // If two threads load it at once, the second copy is dropped.
        let made = Pristine::new(&self.memory, &self.globals)?;
        Ok(self.pristine.get_or_init(|| made))
    }
}

impl Runtime {
    pub(crate) fn image(&self) -> Option<&Arc<Image>> {
        match &self.drive {
            Drive::Image(image) => Some(image),
            Drive::Command { .. } => None,
        }
    }

    /// Returns the image of a runtime that supports sessions.
    pub(crate) fn prepared(&self) -> Result<&Arc<Image>, ExecuteError> {
        self.image().ok_or_else(|| ExecuteError::NotPrepared { name: self.name.clone() })
    }

    /// Returns the memory limit of a guest under these limits.
    pub(crate) fn memory_limit(&self, limits: &Limits) -> MemoryLimit {
        MemoryLimit::of_image(limits.memory_bytes, self.image().map_or(0, |image| image.memory_bytes))
    }
}

/// Returns the driver of a recipe. `lean` images contain no libraries for scripts.
pub(crate) fn driver(recipe: &Recipe, lean: bool) -> Box<dyn Boot> {
    match recipe.driver {
        DriverKind::Cpython => Box::new(Python::command()),
        DriverKind::CpythonReactor => Box::new(Python::reactor()),
        DriverKind::QuickjsReactor => Box::new(JavaScript::reactor().lean(lean)),
        DriverKind::QuickjsCommand => Box::new(JavaScript::command().lean(lean)),
    }
}

/// Returns the name of a binary in the manifest, or else its path.
pub(crate) fn display_name(binary: &Binary) -> String {
    binary.entry.as_ref().map_or_else(|| binary.path.display().to_string(), |entry| entry.name.clone())
}
