//! A runtime that is ready to run: its compiled module and how to drive it.

use glovebox_interpreters::{Anchors, Driver, JavaScript, Python};
use glovebox_runtimes::{Binary, DriverKind, Recipe};
use wasmtime::InstancePre;

use crate::{Language, resident::Resident, state::State};

/// A loaded runtime, shared by all sandboxes that use it.
pub(crate) struct Runtime {
    /// The name in the manifest, or the path of a custom binary.
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) version: Option<String>,
    pub(crate) pre: InstancePre<State>,
    pub(crate) drive: Drive,
    /// What its instances in the pool keep in memory.
    pub(crate) resident: Resident,
}

/// How a runtime's guests are run.
pub(crate) enum Drive {
    /// A prepared image that is called into.
    Image(Image),
    /// A plain command: `_start` with the script's path as argument.
    Command {
        /// Arguments before the path.
        flags: &'static [&'static str],
    },
}

/// What is known of a prepared image.
pub(crate) struct Image {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) anchors: Anchors,
    /// The digest of the rewritten module, in hexadecimal: equal images have equal digests.
    pub(crate) identity: String,
    pub(crate) memory_bytes: u64,
}

impl Runtime {
    pub(crate) fn image(&self) -> Option<&Image> {
        match &self.drive {
            Drive::Image(image) => Some(image),
            Drive::Command { .. } => None,
        }
    }
}

/// The driver a recipe asks for.
pub(crate) fn driver(recipe: &Recipe) -> Box<dyn Driver> {
    match recipe.driver {
        DriverKind::Cpython => Box::new(Python),
        DriverKind::QuickjsReactor => Box::new(JavaScript::reactor()),
        DriverKind::QuickjsCommand => Box::new(JavaScript::command()),
    }
}

/// What people call a binary: its name in the manifest, or its path.
pub(crate) fn display_name(binary: &Binary) -> String {
    binary.entry.as_ref().map_or_else(|| binary.path.display().to_string(), |entry| entry.name.clone())
}
