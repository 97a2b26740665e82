//! Configuration of one run: arguments, streams, resource limits, and grants of host directories.

use std::{fmt, path::PathBuf, str::FromStr};

use glovebox::CancelToken;
use glovebox_component_host::LIFT_BYTES;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};

/// The configuration for one run of an application. The default grants nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AppConfig {
    /// Resource limits.
    pub limits: AppLimits,
    /// Arguments, including the program's name if the application expects it. Default: none.
    pub args: Vec<String>,
    /// The environment variables. Default: none. The host's variables are never inherited.
    pub env: Vec<(String, String)>,
    /// The host directories that the application may open. Default: none.
    pub directories: Vec<Directory>,
    /// `true` to grant TCP, UDP and name lookup. Default: `false`.
    ///
    /// The application can then connect to any address that this machine can reach, including local services and
    /// private networks, and listen on the machine's ports.
    pub network: bool,
    /// Standard input. Default: empty.
    pub stdin: Input,
    /// Standard output. Default: discarded.
    pub stdout: Output,
    /// Standard error. Default: discarded.
    pub stderr: Output,
    /// The token that stops the run from another thread. Also interrupts the component's waits and cancels its scripts.
    pub cancel: CancelToken,
}

/// Standard input of an application.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Input {
    /// Empty input.
    #[default]
    Nothing,
    /// This process's standard input. A read in progress continues in the background after the application ends.
    Inherit,
    /// Bytes in memory.
    Bytes(Vec<u8>),
}

/// Standard output or standard error of an application.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Output {
    /// Discards all output.
    #[default]
    Discard,
    /// This process's stream of the same name, unbuffered and unmodified.
    Inherit,
    /// Writes to this process's standard error, even for the application's standard output.
    InheritStderr,
    /// Collects the output in memory.
    Buffer(OutputBuffer),
}

/// An output buffer with a maximum size. When it is full, the application sees a closed stream.
#[derive(Clone)]
pub struct OutputBuffer(pub(crate) MemoryOutputPipe);

impl fmt::Debug for OutputBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputBuffer({} bytes)", self.0.contents().len())
    }
}

impl OutputBuffer {
    /// Creates an empty buffer for at most `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self(MemoryOutputPipe::new(max_bytes))
    }

    /// Returns a copy of the contents.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.contents().to_vec()
    }
}

impl Input {
    pub(crate) fn set(&self, wasi: &mut wasmtime_wasi::WasiCtxBuilder) {
        match self {
            Self::Nothing => {}
            Self::Inherit => drop(wasi.inherit_stdin()),
            Self::Bytes(bytes) => drop(wasi.stdin(MemoryInputPipe::new(bytes.clone()))),
        }
    }
}

/// Limits on one run of an application. They apply to the component's own code. Its scripts have the limits of the
/// sandbox. Every limit is finite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppLimits {
    /// Maximum fuel, about one unit per WebAssembly operator. Host functions consume no fuel; the wall-clock limit
    /// bounds their duration. The component traps when the fuel is exhausted. Default: 10^11, a few minutes of
    /// computation.
    pub fuel: u64,
    /// Maximum total size in bytes of all linear memories, all tables (eight bytes per element), and the host's
    /// instance data. The instance data contains globals, segments and function references, and takes at least a few
    /// kilobytes.
    ///
    /// `memory.grow` beyond the limit returns -1, as WebAssembly specifies. Most programs then trap. A component whose
    /// instances alone exceed the limit does not start. Default: 512 MiB.
    pub memory_bytes: u64,
    /// Maximum wall-clock time from the start, in milliseconds, including waits and scripts. Default: 600,000 (ten
    /// minutes).
    pub timeout_ms: u64,
    /// Maximum total number of elements in all tables. `table.grow` beyond this limit or `memory_bytes` fails. Default:
    /// 1,000,000.
    pub table_elements: u64,
    /// Maximum number of core module instances in the component. Default: 1,000. The maximum number of memories is a
    /// tenth of this limit, because each memory reserves 4 GiB of address space.
    pub instances: usize,
    /// Maximum number of open handles in all component instances together: resources, asynchronous calls, tasks,
    /// streams and futures. Exceeding the limit traps. Default: 50,000. The sandbox has a smaller quota for its own
    /// resources.
    pub handles: usize,
    /// Maximum number of open WASI resources: files, directories, streams, sockets and timers. Exceeding the limit
    /// traps. Default: 512, so that an application cannot use up this process's file descriptors.
    pub wasi_handles: usize,
    /// Maximum size of the values in one call to the host, or in the result of one export, in bytes of their host
    /// representation. Exceeding the limit traps. Default: 32 MiB.
    pub lift_bytes: usize,
}

impl Default for AppLimits {
    fn default() -> Self {
        Self {
            fuel: 100_000_000_000,
            memory_bytes: 512 << 20,
            timeout_ms: 600_000,
            table_elements: 1_000_000,
            instances: 1_000,
            handles: 50_000,
            wasi_handles: 512,
            lift_bytes: LIFT_BYTES,
        }
    }
}

impl AppLimits {
    /// Returns limits for one tool call: 10^10 units of fuel, 256 MiB of memory, ten seconds, and 4 MiB for the result.
    /// All other limits have their defaults. The deadline of the calling script also applies.
    #[must_use]
    pub fn for_tools() -> Self {
        Self {
            fuel: 10_000_000_000,
            memory_bytes: 256 << 20,
            timeout_ms: 10_000,
            lift_bytes: 4 << 20,
            ..Self::default()
        }
    }
}

/// A host directory that an application may open.
///
/// Textual form: `HOST` or `HOST::GUEST`, optionally followed by `:ro`.
///
/// ```
/// use glovebox_component_runner::Directory;
///
/// let data: Directory = "data::/in:ro".parse()?;
/// assert_eq!((data.guest.as_str(), data.is_read_only), ("/in", true));
/// # Ok::<(), glovebox_component_runner::DirectoryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The path on the host. The application cannot leave the directory through `..` or links.
    pub host: PathBuf,
    /// The path that the application sees.
    pub guest: String,
    /// `true` if the application cannot change the directory or its contents.
    pub is_read_only: bool,
}

/// The error for text that is not a valid directory grant. [`Directory`] documents the syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as `HOST`, `HOST::GUEST`, `HOST:ro` or `HOST::GUEST:ro`")]
pub struct DirectoryError;

impl FromStr for Directory {
    type Err = DirectoryError;

    fn from_str(text: &str) -> Result<Self, DirectoryError> {
        let (path, is_read_only) = match text.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let (host, guest) = path.split_once("::").unwrap_or((path, path));
        if host.is_empty() || guest.is_empty() || guest.contains("::") || path.ends_with(':') {
            return Err(DirectoryError);
        }
        Ok(Self { host: host.into(), guest: guest.into(), is_read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::Directory;

    #[test]
    fn directory_grants_are_parsed() {
        let table = [
            ("data", "data", "data", false),
            ("/a/b:ro", "/a/b", "/a/b", true),
            ("data::/in", "data", "/in", false),
            ("data::/in:ro", "data", "/in", true),
            (".::.", ".", ".", false),
            ("a:b::c:d", "a:b", "c:d", false),
        ];
        for (text, host, guest, is_read_only) in table {
            let expected = Directory { host: host.into(), guest: guest.into(), is_read_only };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", ":ro", "::", "a::", "::b", "a::b::c", "a::b:", "a:", "::b:ro", "a:::ro"] {
            assert!(wrong.parse::<Directory>().is_err(), "{wrong}");
        }
    }
}
