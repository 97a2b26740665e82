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
//! The bytes are untrusted. Nothing in them sets a limit, a quota, an id, or a right: those come from the receiving
//! policy. Their claims are checked against the image and the policy while they are read, and nothing is allocated for
//! sizes that are only claimed. What can be forged is what a script could have written itself: the guest's memory and
//! its files. Without a key, resuming a stranger's bytes is therefore running a stranger's code, inside the sandbox as
//! always. With a [`SessionKey`], bytes that were not sealed with it are refused before anything in them is
//! interpreted.

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
    /// Executions so far: a label.
    pub executions: u64,
    /// The size of linear memory.
    pub memory_bytes: u64,
    /// The mutable globals by export name, in order.
    pub globals: Vec<(String, u64)>,
    /// The key of seeded entropy.
    pub entropy_key: Option<[u8; 32]>,
    /// How often the session was forked: seeds of later forks follow from it.
    pub forks: u64,
    /// The pages that differ from the image's.
    pub pages: Pages,
    /// The result of `Wasi::save`.
    pub wasi: Vec<u8>,
}

impl Saved {
    /// What is written of a session's state.
    #[must_use]
    pub fn of(state: Checkpoint) -> Self {
        let Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks } = state;
        Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: wasi.save() }
    }

    /// The state again. `wasi`: what the receiving policy gives a guest, whose files and descriptors become the saved ones. Whether
    /// random numbers can be foretold is that policy's to say as well, never the bytes'.
    ///
    /// # Errors
    /// When the files do not fit the policy.
    pub fn state(self, mut wasi: Wasi, limit: MemoryLimit, entropy: Entropy) -> Result<Checkpoint, ResumeError> {
        let Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: saved } = self;
        wasi.set_linear_memory_bytes(limit.counted(memory_bytes));
        wasi.restore(&saved).map_err(|error| ResumeError::Files { reason: error.to_string() })?;
        let entropy_key = entropy.key().map(|own| entropy_key.unwrap_or(own));
        Ok(Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks })
    }
}

/// The image that a session differs from.
#[derive(Clone, Copy)]
pub struct ImageView<'a> {
    /// The digest of the prepared module, in hexadecimal.
    pub identity: &'a str,
    /// The runtime's name.
    pub runtime: &'a str,
    /// The interpreter's version.
    pub version: Option<&'a str>,
    /// The runtime's language.
    pub language: Language,
    /// The memory size of a new instance.
    pub memory_bytes: u64,
    /// Its pages.
    pub page: &'a dyn Fn(u32) -> Option<Page>,
    /// The mutable globals between executions, by export name, in order.
    pub globals: &'a [(String, u64)],
}

impl ImageView<'_> {
    /// Converts a page to its difference from the image's, and back.
    fn difference(&self, number: u32, page: &mut Page) {
        if let Some(original) = (self.page)(number) {
            for (byte, original) in page.iter_mut().zip(original) {
                *byte ^= original;
            }
        }
    }
}

/// The maximum that a saved session may claim, from the receiving policy.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Linear memory: `limits.memory_bytes`.
    pub memory_bytes: u64,
    /// The size of the WASI state.
    pub wasi_bytes: u64,
}

impl Caps {
    /// The caps that follow from a policy's limits.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        // Files are checked against their quotas when they are restored; this only keeps the decompressed size in
        // proportion. Standard input and descriptors, the rest of the WASI state, are small.
        const MORE_BYTES: u64 = 4 << 20;
        let wasi_bytes = limits.workspace_bytes.saturating_add(limits.stdin_bytes).saturating_add(MORE_BYTES);
        Self { memory_bytes: limits.memory_bytes, wasi_bytes }
    }
}
