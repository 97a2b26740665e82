//! Configuration of one run.

use std::fmt;

use glovebox::CancelToken;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};

use crate::{AppLimits, Directory};

/// Configuration of one run of an application. The default grants nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AppConfig {
    /// Resource limits.
    pub limits: AppLimits,
    /// Arguments, including the program's name if the application expects it. Default: none.
    pub args: Vec<String>,
    /// Environment variables. Default: none. The host's variables are never inherited.
    pub env: Vec<(String, String)>,
    /// Host directories that the application may open. Default: none.
    pub directories: Vec<Directory>,
    /// Grants TCP, UDP and name lookup. Default: `false`.
    ///
    /// The application can then connect to any address that this machine reaches, including services on this machine
    /// and in private networks, and listen on ports of this machine.
    pub network: bool,
    /// Standard input. Default: empty.
    pub stdin: Input,
    /// Standard output. Default: discarded.
    pub stdout: Output,
    /// Standard error. Default: discarded.
    pub stderr: Output,
    /// Stops the run from another thread: the component's code, its waits, and the scripts that it executes.
    pub cancel: CancelToken,
}

/// Standard input of an application.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Input {
    /// Empty input.
    #[default]
    Nothing,
    /// This process's standard input. A read that has begun continues in the background after the application's end.
    Inherit,
    /// The given bytes.
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
    /// This process's standard error, also for the application's standard output.
    InheritStderr,
    /// Collects the output in memory.
    Buffer(OutputBuffer),
}

/// A buffer for output, up to a limit. When it is full, the application finds the stream closed.
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
