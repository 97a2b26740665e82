//! The parts of the engine that only other crates of Glovebox use, such as `glovebox-component-host`.
//!
//! This module and the methods of public types that are marked `#[doc(hidden)]` are not part of the public API. They
//! change without notice.

use std::{
    cell::RefCell,
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

use crate::{
    BuildError, CancelToken, Engine, ExecuteError, Language, Progress, RuntimeError, Stream, ToolError, ToolErrorKind,
    load::resolve::language,
};

pub use glovebox_runtimes::Digest;
pub use glovebox_wasi::whole_characters;

pub use crate::{
    exec::{
        platform::{Budget, CallToken, SessionScope, random_id},
        suspend::StateBefore,
        thread_pool::{Job, ThreadPool, run_caught},
    },
    tools::{DirectCall, ToolRules, Toolbox},
};

/// A writer that counts bytes and drops them.
#[derive(Debug, Default)]
pub struct ByteCount(pub usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the length in bytes of a value serialized as JSON. Fails if the value cannot be serialized.
pub fn json_len(value: &impl Serialize) -> serde_json::Result<usize> {
    let mut count = ByteCount::default();
    serde_json::to_writer(&mut count, value)?;
    Ok(count.0)
}

/// Converts the answer that a package of another language passes to a tool call. `text` is the result as JSON text if
/// `kind` is `returned`, and the message of the failure if `kind` is `denied` or `failed`.
pub fn tool_answer(kind: &str, text: String) -> Result<String, ToolError> {
    match kind {
        "returned" => Ok(text),
        "denied" => Err(ToolError::of(ToolErrorKind::Denied, text)),
        _ => Err(ToolError::new(text)),
    }
}

/// The class of an error in the packages of other languages. The name of the class is the variant's name, followed by
/// `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// A policy, a request or a tool is invalid.
    Policy,
    /// An interpreter or a resource of the host is unavailable.
    Unavailable,
    /// A session cannot perform the operation.
    Session,
    /// A file operation failed.
    Files,
    /// The files of an execution could not be committed to the host.
    Commit,
    /// An execution could not be suspended or resumed.
    Suspension,
}

impl From<&BuildError> for ErrorClass {
    fn from(error: &BuildError) -> Self {
        match error {
            BuildError::Runtime(RuntimeError::Manifest(_)) => Self::Policy,
            BuildError::Runtime(_) => Self::Unavailable,
            _ => Self::Policy,
        }
    }
}

impl From<&ExecuteError> for ErrorClass {
    fn from(error: &ExecuteError) -> Self {
        match error {
            ExecuteError::SessionEnded { .. }
            | ExecuteError::SessionBusy { .. }
            | ExecuteError::WorkspaceBusy
            | ExecuteError::NoCheckpoint { .. }
            | ExecuteError::Variable { .. }
            | ExecuteError::TooManySessions { .. } => Self::Session,
            ExecuteError::OtherSession { .. } | ExecuteError::OtherImage { .. } | ExecuteError::Diverged { .. } => {
                Self::Suspension
            }
            ExecuteError::Commit { .. } => Self::Commit,
            ExecuteError::Instantiate { .. }
            | ExecuteError::System { .. }
            | ExecuteError::TypeScript { .. }
            | ExecuteError::Driver(_)
            | ExecuteError::Unrestorable { .. } => Self::Unavailable,
            _ => Self::Policy,
        }
    }
}

/// A relay that sends a script's output to the receiver of the current step. Between steps, it keeps output for the
/// next step: after a tool call has timed out, a script continues without an answer.
#[derive(Default)]
pub struct OutputRelay(Mutex<RelayState>);

type OutputReceiver = dyn Fn(Stream, &[u8]) + Send;

#[derive(Default)]
struct RelayState {
    /// The receiver of the current step; `None` between steps.
    receive: Option<Box<OutputReceiver>>,
    held: Vec<(Stream, Vec<u8>)>,
}

/// A step of an execution. Dropping it drops the receiver of its output.
pub struct RelayStep<'a>(&'a OutputRelay);

impl OutputRelay {
    fn state(&self) -> MutexGuard<'_, RelayState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends output to the receiver of the current step, or keeps it for the next step.
    pub fn pass_on(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        if let Some(receive) = &state.receive {
            receive(stream, bytes);
        } else {
            state.held.push((stream, bytes.to_vec()));
        }
    }

    /// Sends the held output to `receive`, and all further output until the step is dropped.
    #[must_use]
    pub fn begin_step(&self, receive: impl Fn(Stream, &[u8]) + Send + 'static) -> RelayStep<'_> {
        let mut state = self.state();
        for (stream, bytes) in mem::take(&mut state.held) {
            receive(stream, &bytes);
        }
        state.receive = Some(Box::new(receive));
        RelayStep(self)
    }
}

impl Drop for RelayStep<'_> {
    fn drop(&mut self) {
        self.0.state().receive = None;
    }
}

/// A progress reporter that reports to the listener of the work on the current thread.
pub struct ThreadProgress;

type ProgressListener = (Box<dyn Fn(&str)>, CancelToken);

thread_local! {
    /// The listener of the work on this thread, and the token that cancels the work.
    static LISTENER: RefCell<Option<ProgressListener>> = const { RefCell::new(None) };
}

impl ThreadProgress {
    /// Runs `work`, and passes the descriptions of its slow steps to `report`. `token` cancels the work.
    pub fn listen<R>(report: impl Fn(&str) + 'static, token: CancelToken, work: impl FnOnce() -> R) -> R {
        LISTENER.set(Some((Box::new(report), token)));
        let result = work();
        LISTENER.set(None);
        result
    }
}

impl Progress for ThreadProgress {
    fn message(&self, text: &str) {
        LISTENER.with_borrow(|listener| {
            if let Some((report, _)) = listener {
                report(text);
            }
        });
    }

    fn cancelled(&self) -> bool {
        LISTENER.with_borrow(|listener| listener.as_ref().is_some_and(|(_, token)| token.is_cancelled()))
    }
}

/// Returns the threads for calls of components.
pub fn call_threads(engine: &Engine) -> &Arc<ThreadPool> {
    &engine.0.call_threads
}

/// A runtime that components can request by name.
#[derive(Clone, Copy, Debug)]
pub struct OfferedRuntime<'a> {
    /// The name of the runtime.
    pub name: &'a str,
    /// The language of the runtime.
    pub language: Language,
    /// The version of the interpreter.
    pub version: &'a str,
}

/// Returns the runtimes that components can request by name, those that a language uses by default first. Unlike
/// [`Engine::runtimes`], does not look into the cache.
pub fn offered_runtimes(engine: &Engine) -> Vec<OfferedRuntime<'_>> {
    let entries = engine.0.runtimes.manifest().runtimes().iter();
    let mut entries: Vec<_> = entries.filter(|entry| engine.0.is_offered(entry)).collect();
    entries.sort_by_key(|entry| !engine.0.is_preferred(entry));
    let offered = entries.into_iter().map(|entry| OfferedRuntime {
        name: &entry.name,
        language: language(entry.language),
        version: &entry.version,
    });
    offered.collect()
}

/// Returns the name of the runtime in the manifest that has this name or alias.
pub fn runtime_name<'a>(engine: &'a Engine, name: &str) -> Option<&'a str> {
    Some(&engine.0.runtimes.manifest().find(name).ok()?.name)
}
