//! A file system as bytes, to be restored in another process.
//!
//! A root without a source is saved completely. Of a mount, only what differs from its source is saved: a directory
//! becomes one that is *not listed* but has entries; the next access lists the source and applies them on top (see
//! `listing.rs`). What lies below a changed name cannot be listed by its path and is saved completely.
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

/// The first byte. It changes with the layout.
const VERSION: u8 = 2;
/// The previous version, whose bases lack the time of change.
const WITHOUT_CHANGED: u8 = 1;

/// All inode numbers are below this: it leaves room for ages of new files, and sums do not overflow.
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
/// It came from the mount and is charged to it.
const CHARGED_TO_MOUNT: u8 = 16;
