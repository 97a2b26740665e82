//! Compilation in child processes, which are killed when they exceed their limits.
//!
//! A component's size does not bound its compilation cost. A few kilobytes can keep Wasmtime's validator and Cranelift
//! busy for hours, or exhaust the memory. The preflight check rejects the known cases. This module limits all others.

use std::{
    ffi::OsString,
    io::{self, Read, Write as _},
    panic,
    path::PathBuf,
    process::{self, Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use glovebox::CompileError;
use rustix::process::{Resource, Rlimit, setrlimit};
use wasmtime::{Config, Engine};

use crate::{LoadError, preflight};

/// The stack size for compilation, which recurses deeply.
const STACK_BYTES: usize = 32 << 20;

/// The stack size of the thread that waits for the parent process to end.
const WATCH_STACK_BYTES: usize = 64 << 10;

/// Maximum size of a compiled component in bytes. The sandbox's own component needs less than a tenth of this size.
const COMPILED_BYTES: u64 = 1 << 30;

/// Maximum length in bytes of the error message read from the child process.
const WORDS_BYTES: u64 = 1_000;

/// The exit code of a child process that rejected its input.
const REFUSED: i32 = 3;

/// The interval at which the parent checks whether the child process has ended.
const POLL: Duration = Duration::from_millis(2);

/// A program that compiles components within limits, one component per process.
///
/// The program must call [`compile_stdin`] and do nothing else. An embedder can use its own executable with a special
/// argument.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    arguments: Vec<OsString>,
    limits: CompileLimits,
}

/// Limits on one compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileLimits {
    /// Maximum memory in bytes. Default: 4 GiB. The sandbox's own component needs 454 MiB.
    pub memory_bytes: u64,
    /// Maximum wall-clock time in milliseconds. Default: 300,000 (5 min). The sandbox's own component needs 20 s.
    pub timeout_ms: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { memory_bytes: 4 << 30, timeout_ms: 300_000 }
    }
}

impl Compiler {
    /// Creates a compiler that starts `program` with `arguments` for each component, with the default limits.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, limits: CompileLimits::default() }
    }

    /// Sets the limits on each compilation.
    #[must_use]
    pub fn limits(mut self, limits: CompileLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Passes the input to a child process. Returns its output: the compiled component, or the result of the closure
    /// that the program passes to [`transform_stdin`].
    ///
    /// # Errors
    /// [`CompileError::Compile`] if the process rejects the input, [`CompileError::Compiler`] if the process exceeds
    /// its limits or fails.
    pub fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, CompileError> {
        let failed =
            |error: io::Error| CompileError::Compiler(format!("cannot compile it in a child process: {error}"));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(io::Error::other("the process has no standard streams")));
        };
        let header = [self.limits.memory_bytes, self.limits.timeout_ms, wasm.len() as u64];
        let (ended, compiled, words) = thread::scope(|scope| {
            // Write errors are ignored: a process that ends early does not read all its input, and its exit status
            // gives the reason. The pipe stays open until the process has ended: see `end_with_parent`.
            scope.spawn(|| {
                header
                    .iter()
                    .try_for_each(|number| stdin.write_all(&number.to_le_bytes()))
                    .and_then(|()| stdin.write_all(wasm))
            });
            let compiled = scope.spawn(|| read(stdout, COMPILED_BYTES));
            let words = scope.spawn(|| read(stderr, WORDS_BYTES));
            let ended = self.wait(&mut child);
            (ended, compiled.join(), words.join())
        });
        let (Ok(compiled), Ok(words)) = (compiled, words) else {
            return Err(failed(io::Error::other("cannot read the output of the process")));
        };
        let words = String::from_utf8_lossy(&words.map_err(failed)?).trim().to_owned();
        match ended.map_err(failed)? {
            Some(status) if status.success() => compiled.map_err(failed),
            Some(status) if status.code() == Some(REFUSED) => Err(CompileError::Compile(words)),
            Some(status) => {
                let memory_bytes = self.limits.memory_bytes;
                let reason = words.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
                Err(CompileError::Compiler(format!(
                    "the compiler, limited to {memory_bytes} bytes of memory, exited early ({status}){reason}"
                )))
            }
            None => Err(CompileError::Compiler(format!("compilation took longer than {} ms", self.limits.timeout_ms))),
        }
    }

    /// Waits for the process to end. Kills the process at the timeout and returns `None`.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if begin.elapsed() >= Duration::from_millis(self.limits.timeout_ms) {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

/// Reads until the end of the stream, but at most `max_bytes` bytes.
fn read(from: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Compiles the component that a [`Compiler`] sends to standard input, and writes the result to standard output.
/// Returns the exit code for the process.
///
/// Permanently limits the memory and CPU time of the process, which must do nothing else before or after this call.
pub fn compile_stdin() -> i32 {
    transform_stdin(|wasm| {
        let settings = |error: wasmtime::Error| LoadError::Settings(format!("{error:#}")).to_string();
        let engine = wasmtime_engine(preflight::is_concurrent(&wasm)).map_err(settings)?;
        engine.precompile_component(&wasm).map_err(|error| format!("{error:#}"))
    })
}

/// Like [`compile_stdin`], but transforms untrusted input with `work`. An error from `work` rejects the input and is
/// reported as the reason.
pub fn transform_stdin(work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String> + Send + 'static) -> i32 {
    // The parent process reports the panic, so the default message is suppressed.
    panic::set_hook(Box::new(|_| {}));
    let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || transform_input(work));
    let done = match worker.map(thread::JoinHandle::join) {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err((1, "it panicked".into())),
        Err(error) => Err((1, error.to_string())),
    };
    match done {
        Ok(()) => 0,
        Err((code, words)) => {
            // Ignore errors: the parent process may have ended and closed the pipe.
            let _ = io::stderr().write_all(words.as_bytes());
            code
        }
    }
}

fn transform_input(work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String>) -> Result<(), (i32, String)> {
    let failed = |error: io::Error| (1, error.to_string());
    let number = || -> io::Result<u64> {
        let mut bytes = [0; 8];
        io::stdin().read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let (memory_bytes, timeout_ms) = (number().map_err(failed)?, number().map_err(failed)?);
    let length = number().map_err(failed)?;
    // The limit applies to the total CPU time of all threads, and compilation can use all processors until the
    // timeout.
    let processors = thread::available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(1));
    let seconds = timeout_ms.div_ceil(1_000).saturating_add(1).saturating_mul(processors);
    for (resource, max) in [(Resource::Data, memory_bytes), (Resource::Cpu, seconds), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) }).map_err(|error| failed(error.into()))?;
    }
    let mut wasm = Vec::new();
    io::stdin().take(length).read_to_end(&mut wasm).map_err(failed)?;
    end_with_parent().map_err(failed)?;
    let made = work(wasm).map_err(|words| (REFUSED, words))?;
    io::stdout().write_all(&made).map_err(failed)
}

/// Ends this process when the parent closes the pipe to standard input. The kernel closes the pipe if the parent is
/// killed. Otherwise, an orphaned compilation would continue until it reaches its own limits.
fn end_with_parent() -> io::Result<()> {
    let watch = || {
        let _ = io::stdin().read(&mut [0]);
        process::exit(1)
    };
    thread::Builder::new().stack_size(WATCH_STACK_BYTES).spawn(watch).map(drop)
}

/// Maximum WebAssembly stack in bytes: twice Wasmtime's default, for interpreters that are compiled to components.
const WASM_STACK_BYTES: usize = 1 << 20;

/// The stack size of an application's fiber in bytes. The space beyond `WASM_STACK_BYTES` is for host functions, which
/// can convert whole policies. The sandbox runs guests on separate stacks.
const FIBER_STACK_BYTES: usize = 4 << 20;

/// Creates an engine for applications, with fuel, epochs and exceptions. Composed providers unwind with exceptions.
/// With `is_concurrent`, components can have asynchronous functions, as in version 0.3.0 of the contract.
pub(crate) fn wasmtime_engine(is_concurrent: bool) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_multi_memory(true)
        .wasm_exceptions(true)
        // Concurrency support slows down every call. Compiled code runs only with the setting that it was compiled for.
        .concurrency_support(is_concurrent)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        // Build memory images only from dense data. Otherwise, two distant bytes would add megabytes to the compiled
        // component.
        .memory_guaranteed_dense_image_size(0)
        // Backtraces of an untrusted component do not help its user. Trap messages are still reported.
        .wasm_backtrace_max_frames(None);
    Engine::new(&config)
}
