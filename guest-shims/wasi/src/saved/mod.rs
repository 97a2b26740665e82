//! A guest's WASI state as bytes, to be restored in another process.
//!
//! The layout, in the terms of [`glovebox_vfs::encoding`]:
//!
//! ```text
//! version, mounts { path, root }, descriptors { ascending number, target, flags, rights }, standard input { read, rest },
//! clock { monotonic, slept }, generator's position, file system
//! ```

mod decode;
mod encode;
mod error;

pub use error::RestoreError;

/// The first byte, which identifies the version of the layout.
const VERSION: u8 = 1;

// The target of a descriptor.
const PREOPEN: u8 = 0;
const STDIN: u8 = 1;
const STDOUT: u8 = 2;
const STDERR: u8 = 3;
const FILE: u8 = 4;
const DIRECTORY: u8 = 5;
const VIRTUAL: u8 = 6;
const TOOLS: u8 = 7;
const NULL: u8 = 8;
const DISPLAYS: u8 = 9;
const SPACE: u8 = 10;
const SCRYPT: u8 = 11;
