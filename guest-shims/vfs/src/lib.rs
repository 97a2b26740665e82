//! An in-memory file system for untrusted guests, with quotas, copy-on-write forks, change tracking, lazily read mounts
//! and commit plans.
//!
//! A guest's files are a Rust data structure. There is no host path that a symlink, a `..` or a race could reach. The
//! files of a killed run are dropped with the structure, and a fork only increments a reference count. The crate
//! performs no input or output, reads no clock and starts no threads, so it also compiles for `wasm32-unknown-unknown`.
//!
//! ```
//! use glovebox_vfs::{Access, OpenOptions, Vfs, VfsLimits};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut vfs = Vfs::new(VfsLimits::default());
//! let app = vfs.add_root(Access::ReadWrite);
//! vfs.write_file(app, "/notes/a.txt", b"one")?;
//! vfs.mark();
//!
//! // A guest uses paths in bytes, relative to a directory, and handles of open files.
//! let dir = vfs.root_dir(app).ok_or("no root")?;
//! let options = OpenOptions { create: true, write: true, ..OpenOptions::default() };
//! let opened = vfs.open(dir, b"notes/b.txt", options)?;
//! vfs.write_at(opened.inode, 0, b"two")?;
//! vfs.release(opened.inode);
//!
//! let mut fork = vfs.clone();
//! fork.remove(app, "/notes")?;
//! assert_eq!(fork.changes(app).deleted, ["notes/a.txt"]);
//! assert_eq!(vfs.changes(app).created, ["notes/b.txt"]);
//! assert_eq!(vfs.read_file(app, "/notes/a.txt", 1_000)?, b"one");
//! # Ok(())
//! # }
//! ```
//!
//! * [`Vfs`] is the file system: roots, handles, operations by path and by inode, quotas.
//! * [`VfsLimits`] contains the quotas, and [`VfsError`] the reasons for refusals.
//! * [`MountSource`] supplies a root whose files the embedder stores elsewhere.
//! * [`Vfs::save`] and [`Vfs::restore`] transfer a file system to another process; [`RestoreError`] describes rejected
//!   bytes. [`encoding`] is for crates that save additional state.
//! * [`escaped`] makes names harmless in messages. It is part of this crate because no lower crate displays names.
//! * [`Changes`] and [`CommitStep`] describe a guest's changes, for reports and for writing the changes back.
//!
//! The crate does not protect against a [`MountSource`] that serves files outside its tree: the embedder opens host
//! files and must not follow links. Nor does it protect programs that follow a guest's symlinks outside the file system
//! (see [`CommitStep::Symlink`]), or that give special meaning to names that are harmless here. There are no
//! permissions and no owners: a root is either writable or not.

mod changes;
mod commit;
pub mod encoding;
mod entries;
mod escaped;
mod files;
mod host;
mod inode;
mod limits;
mod listing;
mod mount;
mod names;
mod resolve;
mod saved;
mod vfs;

pub use changes::Changes;
pub use commit::CommitStep;
pub use entries::DirEntry;
pub use escaped::{Escaped, Untrusted, escaped, escaped_text, is_control, is_hidden};
pub use inode::{FileKind, InodeId, RootId, Stat};
pub use limits::{FileError, VfsError, VfsLimits};
pub use mount::{FileIdentity, MountSource, SourceEntry, SourceError, SourceStat};
pub use names::{OpenOptions, OpenedInode};
pub use resolve::Follow;
pub use saved::RestoreError;
pub use vfs::{Access, Vfs};
