//! Why a pinned file is not to be had.

use glovebox_vfs::{escaped, escaped_text};
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{CacheError, Digest, WheelFault};

/// Why a binary is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// It has not been fetched.
    #[error("runtime `{name}` has not been fetched: there is no file `{}`; type `glovebox runtimes fetch {name}`, or use another file with `--runtime-path`", escaped(path), name = escaped(.name))]
    Missing {
        /// The runtime.
        name: String,
        /// Its path.
        path: PathBuf,
    },
    /// A file named by the user does not exist.
    #[error(
        "there is no runtime file `{}`; check `--runtime-path`, or leave it out and type `glovebox runtimes fetch` to get the pinned ones",
        escaped(path)
    )]
    NoSuchFile {
        /// The file.
        path: PathBuf,
    },
    /// A file named by the user is too large, too small, or not a file.
    #[error("`{}` cannot be a WebAssembly module: {problem}", escaped(path))]
    NotABinary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file in the cache has another length or checksum than its pin.
    #[error("`{}` is not `{name}`: expected {expected}, got {got}; type `glovebox runtimes remove {name}` and fetch it again", escaped(path), name = escaped(.name))]
    Corrupt {
        /// The runtime.
        name: String,
        /// The file.
        path: PathBuf,
        /// The pinned length or checksum.
        expected: String,
        /// The file's length or checksum.
        got: String,
    },
    /// The manifest has no such recipe.
    #[error("the runtime manifest has no recipe `{recipe}`, which runtime `{name}` names", name = escaped(.name), recipe = escaped(.recipe))]
    NoRecipe {
        /// The runtime.
        name: String,
        /// The recipe.
        recipe: String,
    },
    /// No source provided the file.
    #[error(transparent)]
    Unavailable(#[from] Box<Unavailable>),
    /// No source provided a tool.
    #[error(transparent)]
    ToolUnavailable(#[from] Box<ToolUnavailable>),
    /// The fetch was cancelled.
    #[error("cancelled while fetching `{name}`", name = escaped(.0))]
    Cancelled(String),
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", escaped(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The packages for a bundle are not to be had.
    #[error(transparent)]
    Package(Box<PackageError>),
    /// A bundle could not be written.
    #[error("cannot write the bundle `{}`: {source}", escaped(path))]
    Bundle {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Why the packages are unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// pip did not deliver them.
    #[error("cannot fetch the Python packages:{}\n{advice}, or place {} by hand in `{}`, or go without them: `--no-packages` (`EngineConfig::packages`)",
        failures.iter().map(|failure| format!("\n  {failure}")).collect::<String>(), files.join(", "), escaped(directory))]
    Unavailable {
        /// What was tried, and why it failed.
        failures: Vec<FetchFailure>,
        /// What to do first.
        advice: &'static str,
        /// The files that are missing.
        files: Vec<String>,
        /// The directory for them.
        directory: PathBuf,
    },
    /// pip did not deliver one of the user's own packages.
    #[error("cannot fetch {failure}; {advice}")]
    NotFetched {
        /// What was tried, and why it failed.
        failure: FetchFailure,
        /// What to do.
        advice: &'static str,
    },
    /// The fetch was cancelled.
    #[error("cancelled while fetching the Python packages")]
    Cancelled,
    /// A file in the cache differs from what was fetched.
    #[error("`{}` is not package `{name}`: {problem}; remove it, and it is fetched again", escaped(path), name = escaped(.name), problem = escaped_text(.problem))]
    Corrupt {
        /// The package.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A wheel is unusable.
    #[error("the wheel of `{name}` cannot be used: {source}", name = escaped(.name))]
    Wheel {
        /// The package.
        name: String,
        /// The reason.
        source: WheelFault,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Why one source failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// The source.
    pub source: String,
    /// The reason, in one line.
    pub reason: String,
}

impl fmt::Display for FetchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.reason)
    }
}

/// No source provided a binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot fetch runtime `{name}`:{}\n{advice}, or place the file by hand at `{}` (sha256 {sha256}), or use another one with `--runtime-path`", listed(failures), escaped(path), name = escaped(.name))]
pub struct Unavailable {
    /// The runtime.
    pub name: String,
    /// Each source and why it failed.
    pub failures: Vec<FetchFailure>,
    /// What to do first.
    pub advice: String,
    /// The path for the file.
    pub path: PathBuf,
    /// Its expected digest.
    pub sha256: Digest,
}

fn listed(failures: &[FetchFailure]) -> String {
    failures.iter().map(|failure| format!("\n  {failure}")).collect()
}

/// No source provided a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot fetch `{name}`:{}\n{advice}, or place the file by hand at `{}` (sha256 {sha256})", failures.iter().map(|failure| format!("\n  {failure}")).collect::<String>(), escaped(path), name = escaped(.name))]
pub struct ToolUnavailable {
    /// The tool.
    pub name: String,
    /// Each source and why it failed.
    pub failures: Vec<FetchFailure>,
    /// What to do first.
    pub advice: &'static str,
    /// The path for the module.
    pub path: PathBuf,
    /// Its expected digest.
    pub sha256: Digest,
}
