//! The key of a prepared image, and the record stored beside its compiled code.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::rewrite::MutableGlobal;

/// The inputs that determine compiled code. Images that differ in any of them never share a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyParts {
    /// Readable label, such as `python-3.12.0`. File names begin with it.
    pub label: String,
    /// Digest of the runtime's binary.
    pub runtime: Digest,
    /// Digest of the recipe and of the driver's boot code and arguments.
    pub recipe: Digest,
    /// Wasmtime's version.
    pub wasmtime: String,
    /// Engine settings that affect the code, in any stable format.
    pub settings: String,
    /// Target triple and processor features of the compiled code.
    pub target: String,
}

/// Identifies one prepared image on one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtefactKey {
    parts: KeyParts,
    digest: Digest,
}

impl ArtefactKey {
    /// Computes the key.
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

    /// Returns the inputs that the key was computed from.
    pub fn parts(&self) -> &KeyParts {
        &self.parts
    }

    /// Returns the common prefix of the key's file names: the label, with unsuitable characters replaced, and the
    /// digest.
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

/// Data about an image that drivers and engines need in addition to its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecord {
    /// Digest of the compiled module, which identifies the image.
    pub sha256: Digest,
    /// `true` if the image is a booted interpreter, `false` if it is the compiled plain module.
    pub prepared: bool,
    /// Size of the linear memory in bytes.
    pub memory_bytes: u64,
    /// Addresses that the driver needs, by name.
    #[serde(default)]
    pub anchors: BTreeMap<String, u32>,
    /// Mutable globals. Their values are part of every saved instance.
    #[serde(default)]
    pub globals: Vec<MutableGlobal>,
    /// Bits of each mutable global in the image, by export name.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
    /// The code changes only its memory and globals, so resetting these resets the instance.
    #[serde(default)]
    pub restorable: bool,
    /// Other facts, such as the fuel that booting consumed.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

impl ImageRecord {
    /// Creates the record of code that is not booted.
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

/// An image to be stored.
#[derive(Clone, Debug)]
pub struct NewArtefact {
    /// Compiled code.
    pub aot: Vec<u8>,
    /// Record stored beside the code.
    pub record: ImageRecord,
}

/// An image in the cache.
#[derive(Debug)]
pub struct Artefact {
    /// Compiled code, open for reading from its beginning.
    ///
    /// The file was opened without following links, and owner, mode and length were checked on this handle. Load the
    /// code from the handle, not from the path. An image is not [evicted](crate::Runtimes::evict) while its file is
    /// open or mapped.
    pub aot: File,
    /// Path of the code.
    pub aot_path: PathBuf,
    /// Length of the code in bytes.
    pub aot_bytes: u64,
    /// Record stored beside the code.
    pub record: ImageRecord,
    pub(crate) aot_sha256: Digest,
}

/// An entry in a list of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Inputs that determine the image.
    pub parts: KeyParts,
    /// Path of the code.
    pub aot_path: PathBuf,
    /// Length of the code in bytes.
    pub aot_bytes: u64,
    /// Record stored beside the code.
    pub record: ImageRecord,
}
