//! Downloads, verifies, caches and rewrites the interpreters that Glovebox runs.
//!
//! ```no_run
//! use glovebox_runtimes::{CacheDir, Manifest, NoProgress, Runtimes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtimes = Runtimes::new(Manifest::builtin()?, CacheDir::open(CacheDir::default_path()?)?);
//! let entry = runtimes.manifest().find("python-3.12")?;
//! let binary = runtimes.load_or_fetch(entry, &NoProgress)?;
//! println!("{} {}: {} bytes", entry.name, entry.version, binary.bytes.len());
//! # Ok(())
//! # }
//! ```
//!
//! * [`Manifest`] pins each binary by digest and names its [`Recipe`].
//! * [`CacheDir`] is the directory that stores the binaries. Only its owner can write to it.
//! * [`Runtimes`] downloads each binary once, and verifies its digest at every read.
//! * [`rewrite`] adds exports to a module and replaces its initial state with a booted instance's state.
//! * [`PreparedStore`] stores compiled results atomically, and [`Runtimes::evict`] removes old results.
//! * [`Runtimes::write_prepared`] writes compiled results to a zip file for other machines.
//!
//! The crate does not use a WebAssembly engine. Its callers boot and compile the modules.
//!
//! The crate does not protect against code that runs as the same user, which can write to the cache. It also does not
//! protect against a processor, kernel or disk that changes bytes between two checks. The full digest of a binary is
//! checked when the binary is downloaded and at every read. The digest of compiled code is checked on request. On
//! load, the digest is checked only if the file has changed since its last check, which is recorded outside the cache.
//! The crate supports only Unix, because its trust rules depend on owners and modes.

mod artefact;
mod cache;
mod command;
mod custom_images;
mod entries;
mod error;
mod fetch;
pub mod guard;
mod host_program;
mod library;
mod manifest;
mod package_list;
mod prepared;
mod prepared_bundle;
pub mod rewrite;
mod runtimes;
mod seal;
mod tool;
pub mod trusted_dir;
mod user_packages;
mod wheel_files;

pub use artefact::{Artefact, ArtefactKey, Digest, DigestError, ImageRecord, KeyParts, ListedArtefact, NewArtefact};
pub use cache::{CacheDir, CacheEntry, CacheError, CacheKind, CacheLock, Eviction, EvictionReport};
pub use custom_images::{
    CustomImage, CustomImageError, CustomImages, ImageDefinition, ImageInputs, InputFile, MAX_IMAGE_CODE_BYTES,
    MAX_IMAGE_FILE_BYTES, MAX_IMAGE_FILES, MAX_IMAGE_MEMORY_BYTES, MAX_IMAGE_PRELOADED, MAX_IMAGE_STEPS,
    MAX_IMAGE_TIMEOUT_MS,
};
pub use entries::{
    Callback, CodePart, DriverKind, ExportList, FunctionId, ImageEntry, ImageOf, Language, LibraryEntry, Recipe,
    RuntimeEntry, SetupStep, Source, SourcesEntry, ToolEntry, ToolSource, UnpackedEntry,
};
pub use error::{FetchFailure, PackageError, RuntimeError, Unavailable};
pub use fetch::{Fetcher, NoProgress, Progress};
pub use host_program::{HostProgram, ProgramSource};
pub use library::{PackedSource, PackedSources, unpack};
pub use manifest::{MAX_BINARY_BYTES, Manifest, ManifestError};
pub use package_list::{PackageEntry, PackageList};
pub use prepared::{BuildError, PreparedError, PreparedStore};
pub use rewrite::RewriteError;
pub use runtimes::{Binary, FetchOutcome, Runtimes};
pub use user_packages::{
    MAX_USER_PACKAGES, MAX_USER_PACKAGES_BYTES, MAX_USER_PACKAGES_FILES, UserPackage, UserPackageError, UserPackages,
    is_standard as is_standard_module, normal as normal_package_name,
};
pub use wheel_files::{CompiledCode, MAX_WHEEL_BYTES, MAX_WHEEL_FILES, WheelFault, read_wheel, wheel_files};
