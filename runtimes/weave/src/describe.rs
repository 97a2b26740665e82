//! What the shim is told of the guests: JSON in a data segment of the woven module.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{LibraryDescription, WeaveError, guest::Read};
use glovebox_runtimes::rewrite::GlobalKind;

/// All that the shim knows of the guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The guests, by their number.
    pub guests: Vec<GuestDescription>,
    /// How they were woven in.
    pub weave: WeaveDescription,
}

/// One guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// `python` or `javascript`.
    pub language: String,
    /// How it is driven.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The digest of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory in pages of 64 KiB.
    pub memory_pages: u32,
    /// Addresses that the driver knows the image by.
    pub anchors: BTreeMap<String, u32>,
    /// Functions that the driver calls: a call names its place in this list.
    pub exports: Vec<String>,
    /// Mutable globals, in the order of their numbers.
    pub globals: Vec<GlobalDescription>,
    /// What the image consists of, as lengths by turns: of zeros, of bytes that are in its data segment. Behind it is nothing but
    /// zeros.
    pub image: Vec<u32>,
    /// Its library, where that is a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryDescription>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GlobalDescription {
    /// The name that the prepared module exports it by.
    pub export: String,
    /// Its type.
    pub kind: GlobalKind,
    /// The bits that it has in the image.
    pub value: u64,
}

/// How the guests were woven in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeaveDescription {
    /// The weaver's version.
    pub version: String,
    /// What calls may take of the native stack, as estimated.
    pub stack_bytes: u32,
}

impl Description {
    pub(crate) fn new(guests: &[Read<'_>], stack_bytes: u32) -> Self {
        let weave = WeaveDescription { version: env!("CARGO_PKG_VERSION").to_owned(), stack_bytes };
        Self { guests: guests.iter().map(GuestDescription::new).collect(), weave }
    }

    /// As the shim reads it.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, WeaveError> {
        serde_json::to_vec(self).map_err(|error| WeaveError::Guests(error.to_string()))
    }
}

impl GuestDescription {
    fn new(read: &Read<'_>) -> Self {
        let globals = read.globals.iter().map(|(global, value)| GlobalDescription {
            export: global.export.clone(),
            kind: global.kind,
            value: *value,
        });
        Self {
            name: read.guest.name.to_owned(),
            aliases: read.guest.aliases.to_vec(),
            language: read.guest.language.to_owned(),
            driver: read.guest.driver.to_owned(),
            version: read.guest.version.to_owned(),
            image_sha256: read.guest.image_sha256.to_string(),
            memory_pages: read.memory_pages,
            anchors: read.guest.anchors.clone(),
            exports: read.guest.exports.to_vec(),
            globals: globals.collect(),
            image: read.image.lengths(),
            library: read.guest.library.as_ref().map(|library| library.describe()),
        }
    }
}
