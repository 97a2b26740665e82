//! WASI preview 1 over an in-memory file system, generic over guest memory.
//!
//! [`Wasi`] contains all of a guest's state outside its linear memory: descriptors, files, arguments, standard streams,
//! clocks and random bytes. The embedder supplies memory, fuel, time and waiting as a [`Host`]. The crate uses no
//! threads, no host files and no engine, and also compiles for `wasm32-unknown-unknown`.
//!
//! ```
//! use glovebox_vfs::{Access, Vfs, VfsLimits};
//! use glovebox_wasi::{Errno, Mount, Wasi, WasiConfig};
//!
//! let mut vfs = Vfs::new(VfsLimits::default());
//! let app = vfs.add_root(Access::ReadWrite);
//! let mut config = WasiConfig::new(vfs);
//! config.mounts.push(Mount::new("/app", app));
//! let mut wasi = Wasi::new(config).unwrap();
//!
//! wasi.begin_execution();
//! wasi.set_stdin(b"what the guest reads".to_vec());
//! // … the guest runs, and its imports call `wasi.fd_write(&mut host, fd, iovs, iovs_len, nwritten)` …
//! assert_eq!(wasi.take_output().stdout.text(), "");
//! assert_eq!(u32::from(Errno::NotCapable), 76);
//! ```
//!
//! Between executions the state can be saved, and restored in another process and from untrusted bytes: see
//! [`Wasi::save`] and [`Wasi::restore`]. Scripts call the embedder's functions through the [`TOOLS_DEVICE`] device, and
//! display pictures through [`DISPLAYS_DEVICE`].
//!
//! The core types are [`Wasi`] with its [`WasiConfig`] and [`WasiLimits`], [`Host`] and [`Stop`], [`Errno`],
//! [`SecurityEvent`] and [`RestoreError`]. The [`wasi_preview1_functions!`] macro lists the functions, and [`prices`]
//! contains their fuel costs.
//!
//! The crate does not protect against a [`Host`] that does not stop a guest without fuel, or against an embedder that
//! lets linear memory grow without checking [`Wasi::host_bytes`].

mod access;
mod calls;
mod clock;
mod config;
mod decoding;
mod device;
mod errno;
mod host;
mod memory;
mod mounts;
pub mod prices;
mod saved;
mod streams;
mod table;
mod wasi;

pub use self::decoding::{MAX_TEXT_BYTES, TEXT_DEVICE};
pub use access::FileAt;
pub use clock::{Clock, Entropy};
pub use config::{StringError, WasiConfig, WasiError, WasiLimits};
pub use device::{MAX_SCRYPT_BLOCKS, NULL_DEVICE, SCRYPT_DEVICE, SPACE_DEVICE, TOOLS_DEVICE};
pub use errno::Errno;
pub use host::{Fault, Host, SecurityEvent, Stop, Stream};
pub use mounts::Mount;
pub use saved::RestoreError;
pub use streams::{
    CapturedDisplays, CapturedStream, DISPLAYS_DEVICE, MAX_DISPLAYS, Output, PARK_FRAME, whole_characters,
};
pub use wasi::Wasi;
