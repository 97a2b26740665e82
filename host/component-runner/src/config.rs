//! What one run of an application is given.

use std::fmt;

use glovebox::CancelToken;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};

use crate::{AppLimits, Directory};

/// What one run of an application is given. By default nothing but limits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AppConfig {
    /// How much it may use.
    pub limits: AppLimits,
    /// Its arguments, its own name first where it expects that. Default: none.
    pub args: Vec<String>,
    /// Its environment. Default: empty; the host's is never passed on.
    pub env: Vec<(String, String)>,
    /// Directories of the host's that it may open. Default: none.
    pub directories: Vec<Directory>,
    /// Whether it may use TCP, UDP and name lookup: any address that this machine reaches, other services on this machine and in
    /// private networks included, and ports of this machine to listen on. Default: no.
    pub network: bool,
    /// What it reads from standard input. Default: nothing.
    pub stdin: Input,
    /// Where standard output goes. Default: nowhere.
    pub stdout: Output,
    /// Where standard error goes. Default: nowhere.
    pub stderr: Output,
    /// Stops it from another thread: its own code, what it waits for, and the scripts that it executes.
    pub cancel: CancelToken,
}

/// What an application reads.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Input {
    /// Nothing: it is at its end.
    #[default]
    Nothing,
    /// This process's standard input. Once a read waits, it goes on in the background when the application has ended.
    Inherit,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Where an application writes to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Output {
    /// Nowhere.
    #[default]
    Discard,
    /// This process's standard output, or standard error, each write at once and as it is.
    Inherit,
    /// This process's standard error, whichever of the two it is.
    InheritStderr,
    /// A buffer.
    Buffer(OutputBuffer),
}

/// Bytes that an application wrote, up to a limit. Once it is reached the stream is closed to the application.
#[derive(Clone)]
pub struct OutputBuffer(pub(crate) MemoryOutputPipe);

impl fmt::Debug for OutputBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputBuffer({} bytes)", self.0.contents().len())
    }
}

impl OutputBuffer {
    /// An empty one that takes so many bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self(MemoryOutputPipe::new(max_bytes))
    }

    /// What is in it.
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
