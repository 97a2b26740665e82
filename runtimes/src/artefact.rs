//! The key of a prepared image, and the record stored beside its compiled code.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::rewrite::MutableGlobal;

/// Everything that compiled code depends on. Images that differ in any part never share a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyParts {
    /// A readable name, such as `python-3.12.0`; file names begin with it.
    pub label: String,
    /// The binary's checksum.
    pub runtime: Digest,
    /// The recipe, and the driver's boot code and arguments.
    pub recipe: Digest,
    /// Wasmtime's version.
    pub wasmtime: String,
    /// The engine's settings that affect the code, in any fixed form.
    pub settings: String,
    /// The target triple and the processor features compiled for.
    pub target: String,
}

/// Identifies one prepared image on one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtefactKey {
    parts: KeyParts,
    digest: Digest,
}

impl ArtefactKey {
    /// The key for these parts.
    pub fn new(parts: KeyParts) -> Self {
        let digest = Digest::of_fields(&[
            parts.label.as_bytes(),
            parts.runtime.as_bytes(),
            parts.recipe.as_bytes(),
            parts.wasmtime.as_bytes(),
            parts.settings.as_bytes(),
            parts.target.as_bytes(),
        ]);
        Self { parts, digest }
    }

    /// The parts it was made from.
    pub fn parts(&self) -> &KeyParts {
        &self.parts
    }

    /// The common prefix of its file names: the label, as far as it can be part of a file name, and the key.
    pub(crate) fn stem(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' }
        };
        let label: String = self.parts.label.chars().take(64).map(plain).collect();
        // A leading dot would make it a temporary file; the digest is truncated to 128 bits for readability.
        let digest: String = self.digest.to_string().chars().take(32).collect();
        format!("{}-{digest}", label.trim_start_matches('.'))
    }
}

impl fmt::Display for ArtefactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stem())
    }
}

/// The facts about an image that a driver and an engine need beside its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecord {
    /// The image's identity: the digest of the compiled module.
    pub sha256: Digest,
    /// Whether an interpreter was booted into it. Otherwise it is the compiled plain module.
    pub prepared: bool,
    /// The size of its linear memory in bytes.
    pub memory_bytes: u64,
    /// The driver's named addresses.
    #[serde(default)]
    pub anchors: BTreeMap<String, u32>,
    /// Its mutable globals, whose values belong to every saved instance.
    #[serde(default)]
    pub globals: Vec<MutableGlobal>,
    /// What each of them holds in the image, as its bits, by the name it is exported under.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
    /// Whether its code changes only its memory and globals, so that resetting these resets the instance.
    #[serde(default)]
    pub restorable: bool,
    /// Other facts, such as the fuel that booting took.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

impl ImageRecord {
    /// The record of code that nothing was booted from.
    pub fn of_code(sha256: Digest) -> Self {
        Self {
            sha256,
            prepared: false,
            memory_bytes: 0,
            anchors: BTreeMap::new(),
            globals: Vec::new(),
            values: BTreeMap::new(),
            restorable: false,
            notes: BTreeMap::new(),
        }
    }
}

/// A new image.
#[derive(Clone, Debug)]
pub struct NewArtefact {
    /// The compiled code.
    pub aot: Vec<u8>,
    /// The record stored beside it.
    pub record: ImageRecord,
}

/// An image in the cache.
#[derive(Debug)]
pub struct Artefact {
    /// The compiled code, open for reading from its beginning: opened without following links, with owner, mode and
    /// length checked on this handle. Load it from the handle, not from the path. While it is open, or mapped, it is
    /// not [evicted](crate::Runtimes::evict).
    pub aot: File,
    /// Its path.
    pub aot_path: PathBuf,
    /// Its length in bytes.
    pub aot_bytes: u64,
    /// The record stored beside it.
    pub record: ImageRecord,
    pub(crate) aot_sha256: Digest,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The parts that the image was made from.
    pub parts: KeyParts,
    /// The path of its code.
    pub aot_path: PathBuf,
    /// The length of its code in bytes.
    pub aot_bytes: u64,
    /// The record stored beside it.
    pub record: ImageRecord,
}
