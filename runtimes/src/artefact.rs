//! What a prepared image is known by, and what is recorded beside its compiled code.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::rewrite::MutableGlobal;

/// Everything that compiled code depends on. Two that differ in anything never share a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyParts {
    /// A name for people, such as `python-3.12.0`; it begins the file names.
    pub label: String,
    /// The binary's checksum.
    pub runtime: Digest,
    /// The recipe, and the driver's boot code and arguments.
    pub recipe: Digest,
    /// Wasmtime's version.
    pub wasmtime: String,
    /// The engine's settings as far as they change the code, in any fixed form.
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
    /// The key of these parts.
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

    /// What it was made of.
    pub fn parts(&self) -> &KeyParts {
        &self.parts
    }

    /// How the names of its files begin: the label, as far as it can be part of a file name, and the key.
    pub(crate) fn stem(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' }
        };
        let label: String = self.parts.label.chars().take(64).map(plain).collect();
        // A leading dot would make it a temporary file; the digest is cut to 128 bits for readability.
        let digest: String = self.digest.to_string().chars().take(32).collect();
        format!("{}-{digest}", label.trim_start_matches('.'))
    }
}

impl fmt::Display for ArtefactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stem())
    }
}

/// What a driver and an engine have to know about an image beside its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecord {
    /// The image's identity: the digest of the module that was compiled.
    pub sha256: Digest,
    /// Whether an interpreter was booted into it. Otherwise it is the plain module, compiled.
    pub prepared: bool,
    /// The size of its linear memory in bytes.
    pub memory_bytes: u64,
    /// The driver's named addresses.
    #[serde(default)]
    pub anchors: BTreeMap<String, u32>,
    /// Its mutable globals, whose values belong to every saved instance.
    #[serde(default)]
    pub globals: Vec<MutableGlobal>,
    /// Whether its code changes nothing of an instance but its memory and its globals, so that with these an instance is as new.
    #[serde(default)]
    pub restorable: bool,
    /// Anything else worth keeping, such as the fuel that booting took.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

/// An image that was just made.
#[derive(Clone, Debug)]
pub struct NewArtefact {
    /// The compiled code.
    pub aot: Vec<u8>,
    /// What is recorded beside it.
    pub record: ImageRecord,
}

/// An image in the cache.
#[derive(Debug)]
pub struct Artefact {
    /// The compiled code, open for reading from its beginning: opened without following links, owner, mode and length
    /// checked on this very handle. It is to be loaded from the handle, not from the path. While it is open, or mapped, it is
    /// not [evicted](crate::Runtimes::evict).
    pub aot: File,
    /// Where that is.
    pub aot_path: PathBuf,
    /// Its length in bytes.
    pub aot_bytes: u64,
    /// What is recorded beside it.
    pub record: ImageRecord,
    pub(crate) aot_sha256: Digest,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What the image was made of.
    pub parts: KeyParts,
    /// Where its code is.
    pub aot_path: PathBuf,
    /// The length of its code in bytes.
    pub aot_bytes: u64,
    /// What is recorded beside it.
    pub record: ImageRecord,
}
