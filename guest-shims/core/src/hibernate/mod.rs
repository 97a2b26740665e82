//! A session as bytes, to be stored in a file and continued in another process or on another machine.
//!
//! # Format, version 1
//!
//! All numbers are little-endian.
//!
//! | part | content |
//! |---|---|
//! | magic | the eight bytes `GLOVEBOX` |
//! | version | 2 bytes: 1 |
//! | seal | 1 byte: 1 SHA-256, 2 HMAC-SHA-256 |
//! | reserved | 1 byte: 0 |
//! | header length | 4 bytes |
//! | header | JSON: the fields of [`HibernatedInfo`] |
//! | body | one zstd frame |
//! | trailer | the seal's 32 bytes over everything before it |
//!
//! The body holds, in this order: the mutable globals (each name and bits), the key of seeded entropy and the count of
//! forks, the private pages' numbers as ranges, the pages, and the WASI state (descriptor table, files, standard input,
//! clock, generator) as `glovebox-wasi` writes it. A private page is stored as its difference (exclusive or) from the
//! image's page, which is mostly zero: an interpreter touches reference counts all over its heap.
//!
//! Equal sessions give equal bytes.
//!
//! # Trust
//!
//! The bytes are untrusted. They set no limit, quota, id or right: all of these come from the receiving policy. Their
//! claims are checked against the image and the policy during reading, and nothing is allocated for sizes that are only
//! claimed.
//!
//! A forger can only change what a script could have written: the guest's memory and its files. Without a key, resuming
//! a stranger's bytes is therefore running a stranger's code, inside the sandbox as always. With a [`SessionKey`],
//! bytes that were not sealed with it are rejected before anything in them is interpreted.

mod codec;
mod decode;
mod encode;
mod error;
mod header;
mod seal;
#[cfg(test)]
mod tests;

pub use codec::{Codec, Unpacked, WINDOW_LOG};
pub use decode::{decode, reseal, seal, unseal};
pub use encode::encode;
pub use error::ResumeError;
pub use header::HibernatedInfo;
pub use seal::{KeyError, SessionKey};

use glovebox_wasi::Wasi;

use crate::{
    Entropy, Language, Limits, MemoryLimit,
    session::{Checkpoint, PAGE_BYTES, Page, Pages},
};

/// The unit of memory growth: WebAssembly's page size.
const MEMORY_UNIT_BYTES: u64 = 64 << 10;

/// The part of a session that its image does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The number of executions so far; a label.
    pub executions: u64,
    /// The size of linear memory.
    pub memory_bytes: u64,
    /// The mutable globals by export name, in order.
    pub globals: Vec<(String, u64)>,
    /// The key of seeded entropy.
    pub entropy_key: Option<[u8; 32]>,
    /// The number of forks so far. The seeds of later forks depend on it.
    pub forks: u64,
    /// The pages that differ from the image's.
    pub pages: Pages,
    /// The saved WASI state, from `Wasi::save`.
    pub wasi: Vec<u8>,
}

impl Saved {
    /// Returns the part of a session's state that is written.
    #[must_use]
    pub fn of(state: Checkpoint) -> Self {
        let Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks } = state;
        Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: wasi.save() }
    }

    /// Restores the state. `wasi` is the state that the receiving policy gives a guest; its files and descriptors
    /// become the saved ones. The policy also decides whether random numbers are predictable, never the bytes.
    ///
    /// # Errors
    /// The files do not fit the policy.
    pub fn state(self, mut wasi: Wasi, limit: MemoryLimit, entropy: Entropy) -> Result<Checkpoint, ResumeError> {
        let Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: saved } = self;
        wasi.set_linear_memory_bytes(limit.counted(memory_bytes));
        wasi.restore(&saved).map_err(|error| ResumeError::Files { reason: error.to_string() })?;
        let entropy_key = entropy.key().map(|own| entropy_key.unwrap_or(own));
        Ok(Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks })
    }
}

/// The image that a session is compared with.
#[derive(Clone, Copy)]
pub struct ImageView<'a> {
    /// The SHA-256 of the prepared module, in hexadecimal.
    pub identity: &'a str,
    /// The runtime's name.
    pub runtime: &'a str,
    /// The interpreter's version.
    pub version: Option<&'a str>,
    /// The runtime's language.
    pub language: Language,
    /// The memory size of a new instance.
    pub memory_bytes: u64,
    /// Returns a page of the image by its number.
    pub page: &'a dyn Fn(u32) -> Option<Page>,
    /// The mutable globals between executions, by export name, in order.
    pub globals: &'a [(String, u64)],
}

impl ImageView<'_> {
    /// Converts a page to its difference from the image's page, and back.
    fn difference(&self, number: u32, page: &mut Page) {
        if let Some(original) = (self.page)(number) {
            for (byte, original) in page.iter_mut().zip(original) {
                *byte ^= original;
            }
        }
    }
}

/// Maximum sizes that a saved session may claim, from the receiving policy.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Maximum linear memory, `limits.memory_bytes`, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of the WASI state, in bytes.
    pub wasi_bytes: u64,
}

impl Caps {
    /// Returns the caps that follow from a policy's limits.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        // Files are checked against their quotas when they are restored. This cap only keeps the decompressed size in
        // proportion. The rest of the WASI state, which is standard input and descriptors, is small.
        const MORE_BYTES: u64 = 4 << 20;
        let wasi_bytes = limits.workspace_bytes.saturating_add(limits.stdin_bytes).saturating_add(MORE_BYTES);
        Self { memory_bytes: limits.memory_bytes, wasi_bytes }
    }
}
