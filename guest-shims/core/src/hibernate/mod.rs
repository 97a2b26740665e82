//! Sessions as bytes, for storage in a file and for resuming in another process or on another machine.
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
//! | trailer | 32 bytes: the seal over all preceding bytes |
//!
//! The body contains, in this order:
//!
//! * the name and the bits of each mutable global
//! * the key of the seeded entropy, and the number of forks
//! * the numbers of the private pages, as ranges, and the pages
//! * the WASI state as `glovebox-wasi` writes it: descriptor table, files, standard input, clock and generator
//!
//! A private page is stored as its difference (exclusive or) from the image's page. The difference is mostly zero: an
//! interpreter changes reference counts all over its heap.
//!
//! Equal sessions are encoded to equal bytes.
//!
//! # Trust
//!
//! The bytes are untrusted. They set no limit, quota, ID or permission: all of these come from the receiving policy.
//! Reading checks the claimed sizes against the image and the policy, and allocates memory only for bytes that are
//! present.
//!
//! A forger can only change the state that a script could have written: the guest's memory and its files. Without a
//! key, resuming bytes from an untrusted source is therefore like running an untrusted script in the sandbox. With a
//! [`SessionKey`], bytes that were not sealed with the key are rejected before their body is decompressed.

mod codec;
mod header;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    io::{self, Read, Write},
};

use glovebox_vfs::{escaped, escaped_text};
use glovebox_wasi::{RestoreError, Wasi};

use crate::{
    Entropy, Language, Limits, MemoryLimit,
    session::{Checkpoint, PAGE_BYTES, Page, Pages},
};

pub use codec::{decode, encode, reseal, seal, unseal};
pub use header::{HibernatedInfo, KeyError, SEAL_BYTES, Seal, SessionKey};

/// The unit of memory growth: WebAssembly's page size.
const MEMORY_UNIT_BYTES: u64 = 64 << 10;

/// The part of a session that its image does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// The number of executions so far, for information only.
    pub executions: u64,
    /// The size of the linear memory, in bytes.
    pub memory_bytes: u64,
    /// The mutable globals' bits, ordered by export name.
    pub globals: Vec<(String, u64)>,
    /// The seeded entropy's key; `None` with the host's entropy.
    pub entropy_key: Option<[u8; 32]>,
    /// The number of forks so far. The seeds of later forks depend on this number.
    pub forks: u64,
    /// The pages that differ from the image's.
    pub pages: Pages,
    /// The saved WASI state, from `Wasi::save`.
    pub wasi: Vec<u8>,
}

impl SavedSession {
    /// Creates a saved session from the state of a session.
    pub fn of(state: Checkpoint) -> Self {
        let Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks } = state;
        Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: wasi.save() }
    }

    /// Restores the state. `wasi` is a new WASI state with the receiving policy; the saved files and descriptors
    /// replace those in `wasi`. The policy, not the bytes, decides whether random numbers are predictable.
    ///
    /// # Errors
    /// Fails if the saved state exceeds a limit, or does not match the mounts.
    pub fn state(self, mut wasi: Wasi, limit: MemoryLimit, entropy: Entropy) -> Result<Checkpoint, ResumeError> {
        let Self { executions, memory_bytes, globals, entropy_key, forks, pages, wasi: saved } = self;
        wasi.set_linear_memory_bytes(limit.counted(memory_bytes));
        wasi.restore(&saved).map_err(|error| match limit_of(&error) {
            Some(key) => ResumeError::Limit { key },
            None => ResumeError::Files { reason: error.to_string() },
        })?;
        let entropy_key = entropy.key().map(|own| entropy_key.unwrap_or(own));
        Ok(Checkpoint { memory_bytes, pages, globals, wasi, executions, entropy_key, forks })
    }
}

/// Returns the name of the policy's limit that the saved state exceeds, if the policy contains that limit.
fn limit_of(error: &RestoreError) -> Option<&'static str> {
    match error {
        RestoreError::Memory | RestoreError::FileSystem(glovebox_vfs::RestoreError::Limit("memory")) => {
            Some("memory_bytes")
        }
        RestoreError::OpenFiles(_) => Some("open_files"),
        RestoreError::FileSystem(glovebox_vfs::RestoreError::Limit("bytes")) => Some("workspace_bytes"),
        RestoreError::FileSystem(glovebox_vfs::RestoreError::Limit("inodes")) => Some("workspace_inodes"),
        _ => None,
    }
}

/// The image that a session is encoded against.
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
    /// The memory size of a new instance, in bytes.
    pub memory_bytes: u64,
    /// Returns a page of the image by its number; `None` beyond the image.
    pub page: &'a dyn Fn(u32) -> Option<Page>,
    /// The bits of each mutable global between executions, ordered by export name.
    pub globals: &'a [(String, u64)],
}

impl ImageView<'_> {
    /// Converts a page to its difference from the image's page, or back.
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
    /// Returns the caps for a policy's limits.
    pub fn of(limits: &Limits) -> Self {
        // Restoring checks the files against their quotas. This cap only bounds the decompressed size. Apart from files
        // and standard input, the WASI state is small.
        const MORE_BYTES: u64 = 4 << 20;
        let wasi_bytes = limits.workspace_bytes.saturating_add(limits.stdin_bytes).saturating_add(MORE_BYTES);
        Self { memory_bytes: limits.memory_bytes, wasi_bytes }
    }
}

/// The binary logarithm of the compression window: 1 MiB. Readers reject a larger window.
pub const WINDOW_LOG: u32 = 20;

/// Zstandard (RFC 8878), provided by the backend.
pub trait Codec {
    /// Compresses all of `body` into one frame, with a window of at most 1 MiB.
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()>;

    /// Decompresses the frame at the beginning of the bytes. Allocates no memory for sizes that the frame only claims.
    ///
    /// # Errors
    /// Fails if the window is larger than 1 MiB, or if the frame needs a dictionary.
    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn FrameReader<'a> + 'a>>;
}

/// A frame during decompression. Reading stops at the end of the frame.
pub trait FrameReader<'a>: Read {
    /// Returns the bytes after the frame. Requires that the frame has been read to its end.
    fn rest(self: Box<Self>) -> &'a [u8];
}

/// The reason why bytes cannot be restored to a session. `S` is the type of errors that do not depend on the bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError<S = Infallible> {
    /// The bytes are not a hibernated session.
    #[error(
        "these bytes are not a hibernated session; use the output of `Session::hibernate` or `glovebox session export`"
    )]
    NotASession,
    /// The bytes use a different format version.
    #[error(
        "the hibernated session has format version {found}, but this program reads version {known}; resume it with the Glovebox version that wrote it"
    )]
    Version {
        /// The version of the bytes.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// The bytes are damaged or forged.
    #[error("the hibernated session is damaged: {reason}; use another copy", reason = escaped_text(.reason))]
    Damaged {
        /// A description of the damage.
        reason: String,
    },
    /// The sandbox has a key, and the bytes were sealed without one.
    #[error(
        "the hibernated session is not sealed, but this program has a session key; seal the session with the key when hibernating, or resume it without a key if you trust its origin"
    )]
    Unauthenticated,
    /// The bytes were sealed with a key, and the sandbox has none.
    #[error("the hibernated session is sealed with a key; provide the session key")]
    KeyMissing,
    /// The bytes were changed, or were sealed with another key or for another session.
    #[error(
        "the hibernated session is not authentic: it was changed, or sealed with another key or under another name; nothing was restored"
    )]
    NotAuthentic,
    /// The session belongs to another image.
    #[error(
        "the hibernated session belongs to the image {found} of `{found_runtime}`, but this sandbox runs {expected} of `{runtime}`; resume it with the same Glovebox version and runtime", found = escaped_text(.found), found_runtime = escaped(.found_runtime), runtime = escaped(.runtime)
    )]
    Image {
        /// The image named in the bytes.
        found: String,
        /// The runtime named in the bytes.
        found_runtime: String,
        /// The sandbox's image.
        expected: String,
        /// The sandbox's runtime.
        runtime: String,
    },
    /// The bytes claim a size that the sandbox's policy does not allow.
    #[error(
        "the hibernated session needs {bytes} bytes of {what}, but `limits.{key}` is {max}; raise the limit to resume"
    )]
    TooLarge {
        /// The resource, as named in the message.
        what: &'static str,
        /// The name of the limit.
        key: &'static str,
        /// The claimed size in bytes.
        bytes: u64,
        /// The value of the limit.
        max: u64,
    },
    /// The saved memory, files and descriptors exceed a limit of the sandbox's policy.
    #[error("the hibernated session exceeds `limits.{key}`; raise the limit to resume")]
    Limit {
        /// The name of the limit.
        key: &'static str,
    },
    /// The saved files or descriptors do not match the sandbox's mounts.
    #[error(
        "the hibernated session's files do not match this sandbox: {reason}; resume it with its original policy", reason = escaped_text(.reason)
    )]
    Files {
        /// A description of the mismatch.
        reason: String,
    },
    /// The backend could not create the session.
    #[error(transparent)]
    Session(#[from] S),
}

impl ResumeError {
    /// Converts the error to a type with further cases.
    pub fn widened<S>(self) -> ResumeError<S> {
        match self {
            Self::NotASession => ResumeError::NotASession,
            Self::Version { found, known } => ResumeError::Version { found, known },
            Self::Damaged { reason } => ResumeError::Damaged { reason },
            Self::Unauthenticated => ResumeError::Unauthenticated,
            Self::KeyMissing => ResumeError::KeyMissing,
            Self::NotAuthentic => ResumeError::NotAuthentic,
            Self::Image { found, found_runtime, expected, runtime } => {
                ResumeError::Image { found, found_runtime, expected, runtime }
            }
            Self::TooLarge { what, key, bytes, max } => ResumeError::TooLarge { what, key, bytes, max },
            Self::Limit { key } => ResumeError::Limit { key },
            Self::Files { reason } => ResumeError::Files { reason },
            Self::Session(never) => match never {},
        }
    }
}
