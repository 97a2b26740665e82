//! Errors about pinned files and packages.

use glovebox_vfs::{escaped, escaped_text};
use std::{fmt, io, path::PathBuf};

use crate::{CacheError, Digest, WheelFault};

/// Errors from loading, downloading or removing a pinned binary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The binary has not been downloaded.
    #[error("`{name}` has not been fetched: there is no file `{}`; run `glovebox runtimes fetch {name}`, or use another runtime with `--runtime-path`", escaped(path), name = escaped(.name))]
    Missing {
        /// The name of the runtime.
        name: String,
        /// The expected path of the binary.
        path: PathBuf,
    },
    /// The module of a tool has not been downloaded, or a file was removed while a bundle was written.
    #[error(
        "there is no file `{}`: it has not been downloaded, or another process removed it; run the command again",
        escaped(path)
    )]
    NoFile {
        /// The expected path of the file.
        path: PathBuf,
    },
    /// A file that the user passed does not exist.
    #[error(
        "there is no runtime file `{}`; check `--runtime-path`, or remove it and run `glovebox runtimes fetch` to get the pinned runtimes",
        escaped(path)
    )]
    NoSuchFile {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file that the user passed is not a regular file, is too large, or does not begin with a WebAssembly header.
    #[error("`{}` is not a usable WebAssembly module: {problem}", escaped(path))]
    NotABinary {
        /// The path of the file.
        path: PathBuf,
        /// The reason, such as `it is not a regular file`.
        problem: String,
    },
    /// A cached file does not match its pinned length or digest.
    #[error("`{}` does not match the pin of `{name}`: expected {expected}, got {got}; run `glovebox runtimes remove {name}`, then `glovebox runtimes fetch {name}`", escaped(path), name = escaped(.name))]
    Corrupt {
        /// The name of the runtime.
        name: String,
        /// The path of the file.
        path: PathBuf,
        /// The pinned length or digest.
        expected: String,
        /// The actual length or digest.
        got: String,
    },
    /// A downloaded program does not have its pinned length.
    #[error("`{}` is damaged: expected {expected} bytes, got {got}; delete the file to download `{name}` again", escaped(path), name = escaped(.name))]
    CorruptProgram {
        /// The name of the program.
        name: String,
        /// The path of the file.
        path: PathBuf,
        /// The pinned length in bytes.
        expected: u64,
        /// The actual length in bytes.
        got: u64,
    },
    /// The manifest does not contain the recipe that the runtime specifies.
    #[error("the runtime manifest does not contain the recipe `{recipe}` of runtime `{name}`; add the recipe to the manifest", name = escaped(.name), recipe = escaped(.recipe))]
    NoRecipe {
        /// The name of the runtime.
        name: String,
        /// The name of the recipe.
        recipe: String,
    },
    /// All sources of a runtime, a tool or a program failed.
    #[error(transparent)]
    Unavailable(#[from] Box<Unavailable>),
    /// The download was cancelled.
    #[error("cancelled while fetching `{name}`", name = escaped(.0))]
    Cancelled(String),
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", escaped(path))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The packages for a bundle could not be downloaded or verified.
    #[error(transparent)]
    Package(Box<PackageError>),
    /// A bundle could not be written.
    #[error("cannot write the bundle `{}`: {source}", escaped(path))]
    Bundle {
        /// The path of the bundle.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Errors from downloading, reading or verifying packages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// pip could not download the packages.
    #[error("cannot fetch the Python packages:{}\n{advice}, or place {} manually in `{}`, or disable packages with `--no-packages` (`EngineConfig::packages`)",
        listed(failures), files.join(", "), escaped(directory))]
    Unavailable {
        /// All attempts, each with its error.
        failures: Vec<FetchFailure>,
        /// Advice on resolving the error.
        advice: &'static str,
        /// The names of the missing files.
        files: Vec<String>,
        /// The directory to place the files in.
        directory: PathBuf,
    },
    /// pip could not download one of the user's packages.
    #[error("cannot fetch {failure}; {advice}")]
    NotFetched {
        /// The attempt and its error.
        failure: FetchFailure,
        /// Advice on resolving the error.
        advice: &'static str,
    },
    /// The download was cancelled.
    #[error("cancelled while fetching the Python packages")]
    Cancelled,
    /// A cached file is missing, or does not match its pinned length or digest.
    #[error("`{}` is not a valid copy of package `{name}`: {problem}; delete the file to fetch the package again", escaped(path), name = escaped(.name), problem = escaped_text(.problem))]
    Corrupt {
        /// The name of the package.
        name: String,
        /// The path of the file.
        path: PathBuf,
        /// The description of the mismatch.
        problem: String,
    },
    /// A wheel is invalid.
    #[error("the wheel of `{name}` cannot be used: {source}", name = escaped(.name))]
    Wheel {
        /// The name of the package.
        name: String,
        /// The defect in the wheel.
        source: WheelFault,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// A failed attempt to download from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// The description of the source.
    pub source: String,
    /// The cause of the failure, in one line.
    pub reason: String,
}

impl fmt::Display for FetchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.reason)
    }
}

/// The error if all sources of a file fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot fetch {}`{name}`:{}\n{advice}, or place the file manually at `{}` (sha256 {sha256}){}",
    if *is_runtime { "runtime " } else { "" }, listed(failures), escaped(path),
    if *is_runtime { ", or use another file with `--runtime-path`" } else { "" }, name = escaped(.name))]
pub struct Unavailable {
    /// The name of the runtime, tool or program.
    pub name: String,
    /// `true` if the file belongs to a runtime.
    pub is_runtime: bool,
    /// All sources, each with its error.
    pub failures: Vec<FetchFailure>,
    /// Advice on resolving the error.
    pub advice: &'static str,
    /// The path to place the file at.
    pub path: PathBuf,
    /// The pinned digest of the file.
    pub sha256: Digest,
}

fn listed(failures: &[FetchFailure]) -> String {
    failures.iter().map(|failure| format!("\n  {failure}")).collect()
}
