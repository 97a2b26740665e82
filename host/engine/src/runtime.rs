//! A runtime that is ready to run: its compiled module and how to drive it.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use glovebox_core::{ImageDriver, LibraryMount, Limits, MemoryLimit};
use glovebox_interpreters::{Anchors, Boot, Driver, JavaScript, Python};
use glovebox_runtimes::{Binary, DriverKind, ImageRecord, Recipe};
use glovebox_vfs::MountSource;
use wasmtime::Module;

use crate::{ExecuteError, Language, recycled::RecycledInstances, session::Pristine, template::Template};

/// A loaded runtime, shared by all sandboxes that use it.
pub(crate) struct Runtime {
    /// The name in the manifest, or the path of a custom binary.
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) version: Option<String>,
    pub(crate) template: Template,
    pub(crate) drive: Drive,
    /// Its standard library, where that is a file of its own.
    pub(crate) library: Option<LibraryMount>,
    /// What its scripts find at `/app/site-packages`, if that differs from other runtimes.
    pub(crate) packages: Option<Arc<dyn MountSource>>,
    /// Recycled instances, if they can be restored to an image.
    pub(crate) recycled: Option<RecycledInstances>,
}

/// How a runtime's guests are run.
pub(crate) enum Drive {
    /// A prepared image that is called into.
    Image(Arc<Image>),
    /// A plain command: `_start` with the script's path as argument.
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

    /// How it is called.
    pub(crate) fn driver(&self) -> ImageDriver<'_> {
        ImageDriver { driver: &*self.driver, anchors: &self.anchors }
    }

    /// The untouched image. Made when the first session needs it.
    pub(crate) fn pristine(&self) -> Result<&Pristine, ExecuteError> {
        if let Some(pristine) = self.pristine.get() {
            return Ok(pristine);
        }
        // If two threads make one at once, the second is dropped.
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

    /// The image of a runtime that can have sessions.
    pub(crate) fn prepared(&self) -> Result<&Arc<Image>, ExecuteError> {
        self.image().ok_or_else(|| ExecuteError::NotPrepared { name: self.name.clone() })
    }

    /// How much memory a guest of it may have under these limits.
    pub(crate) fn memory_limit(&self, limits: &Limits) -> MemoryLimit {
        MemoryLimit::of_image(limits.memory_bytes, self.image().map_or(0, |image| image.memory_bytes))
    }
}

/// The driver a recipe asks for, for images that are `lean` or hold the libraries for scripts as well.
pub(crate) fn driver(recipe: &Recipe, lean: bool) -> Box<dyn Boot> {
    match recipe.driver {
        DriverKind::Cpython => Box::new(Python::command()),
        DriverKind::CpythonReactor => Box::new(Python::reactor()),
        DriverKind::QuickjsReactor => Box::new(JavaScript::reactor().lean(lean)),
        DriverKind::QuickjsCommand => Box::new(JavaScript::command().lean(lean)),
    }
}

/// How a binary is named: its name in the manifest, or its path.
pub(crate) fn display_name(binary: &Binary) -> String {
    binary.entry.as_ref().map_or_else(|| binary.path.display().to_string(), |entry| entry.name.clone())
}
