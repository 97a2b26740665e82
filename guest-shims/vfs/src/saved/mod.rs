//! A file system as bytes, to be put down and taken up again in another process.
//!
//! A root without a source is saved wholly. Of a mount only what differs from its source: a directory there becomes one that
//! is *not listed* but has entries; the next look into it lists the source and puts them over it (see `listing.rs`). What
//! lies below a changed name cannot be listed by its path and is saved wholly.
//!
//! The layout, in the terms of [`encoding`](crate::encoding):
//!
//! ```text
//! version, now_ns, next inode, roots { mounted?, inode, journal }, inodes { ascending id, flags, root, times, body }
//! journal: { ascending directory id, { ascending name, what it stood for } }
//! ```
//!
//! Not written down, because it follows: links, usage, which directories are listed, where they are in the source.

mod decode;
mod encode;
mod error;
mod tree;

pub use error::RestoreError;

/// The first byte. It changes with the layout.
const VERSION: u8 = 2;
/// The version before, whose bases do not have the time of change.
const WITHOUT_CHANGED: u8 = 1;

/// No inode has this number or a higher one: it leaves room for ages of new files, and is no number that a sum overflows at.
const MAX_INODES: u64 = 1 << 48;

// What an inode is, as the low bits of its flags.
const PRIVATE: u8 = 0;
const MOUNTED: u8 = 1;
const GONE: u8 = 2;
const DIRECTORY: u8 = 3;
const SYMLINK: u8 = 4;
const KIND: u8 = 7;
/// The file was written since the last commit.
const WRITTEN: u8 = 8;
/// It came out of the mount and is charged there.
const CHARGED_TO_MOUNT: u8 = 16;
