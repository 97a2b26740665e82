//! A file system as bytes, to be restored in another process.
//!
//! A root without a source is saved completely. Of a mount, only the differences from its source are saved. A restored
//! directory is *not listed* but has entries; the next access lists the source and applies the entries on top (see
//! `listing.rs`). Directories below a changed name cannot be listed by their path and are saved completely.
//!
//! The layout, in the terms of [`encoding`](crate::encoding):
//!
//! ```text
//! version, now_ns, next inode, roots { mounted?, inode, journal }, inodes { ascending id, flags, root, times, body }
//! journal: { ascending directory id, { ascending name, what it stood for } }
//! ```
//!
//! Derived and therefore not saved: links, usage, which directories are listed, their paths in the source.

mod decode;
mod encode;
mod error;
mod read;
mod tree;

pub use error::RestoreError;

/// The first byte, which identifies the version of the layout.
const VERSION: u8 = 2;
/// The previous version, whose bases have no time of change.
const WITHOUT_CHANGED: u8 = 1;

/// Bound of all inode numbers. It leaves room for ages of new files, and sums do not overflow.
const MAX_INODES: u64 = 1 << 48;

// The type of an inode, as the low bits of its flags.
const PRIVATE: u8 = 0;
const MOUNTED: u8 = 1;
const GONE: u8 = 2;
const DIRECTORY: u8 = 3;
const SYMLINK: u8 = 4;
const KIND: u8 = 7;
/// The file was written since the last commit.
const WRITTEN: u8 = 8;
/// The inode came from the mount and is charged to it.
const CHARGED_TO_MOUNT: u8 = 16;
