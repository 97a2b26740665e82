//! Outcomes and errors of runs. Only this module classifies Wasmtime errors.

use std::{io, path::PathBuf, time::Duration};

use glovebox::{CompileError, Resource, escaped, escaped_text};
use glovebox_component_host::Usage;
use serde::Serialize;
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::{AppLimits, Export, watch::StopReason};

/// Maximum length in bytes of a host error in a trap message, without the ellipsis.
const WORDS_BYTES: usize = 500;

/// The outcome and resource usage of one application run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AppReport {
    /// The outcome of the run.
    pub outcome: AppOutcome,
    /// The result of an invoked export, as WAVE. `None` for commands, functions without a result, and calls that did
    /// not return.
    pub value: Option<String>,
    /// Units of fuel that the component's own code consumed, up to Wasmtime's last check.
    pub fuel_consumed: u64,
    /// The total size of linear memories, tables and instances at the end of the run, in bytes. Counted as in
    /// [`AppLimits::memory_bytes`].
    pub memory_bytes: u64,
    /// Wall-clock time, including instantiation.
    pub duration: Duration,
    /// The sandbox's usage of its quotas when the run ended.
    pub sandbox: Usage,
    /// `true` if the thread was left behind because a write to this process's own output did not return. In that case,
    /// fuel, memory and sandbox usage are unknown and reported as 0. Other writers to that output may block as well.
    pub is_left_behind: bool,
}

/// The outcome of an application run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AppOutcome {
    /// The function returned without an error.
    Returned,
    /// The function returned an error.
    Failed,
    /// The application exited.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// The application exceeded a limit.
    Exhausted {
        /// The exhausted resource.
        resource: Resource,
        /// The limit, in units of fuel, bytes or milliseconds.
        limit: u64,
        /// The amount used or requested, in the same unit.
        used: u64,
    },
    /// The caller cancelled the run.
    Cancelled,
    /// The application trapped, or a host function failed because of the application.
    Trapped {
        /// Wasmtime's message, truncated after 500 bytes.
        words: String,
    },
}

impl AppOutcome {
    /// Returns `true` if the function returned without an error, or the application exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Returned | Self::Exited { code: 0 })
    }

    /// Returns a short human-readable description.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Returned => "returned".into(),
            Self::Failed => "returned an error".into(),
            Self::Exited { code } => format!("exited with {code}"),
            Self::Exhausted { resource: Resource::Fuel, limit, .. } => {
                format!("the component is out of fuel: all {limit} units were used")
            }
            Self::Exhausted { resource: Resource::Time, limit, .. } => {
                format!("the component is out of time: it ran longer than {limit} ms")
            }
            Self::Exhausted { limit, used, .. } => {
                format!("the component is out of memory: {used} bytes needed, {limit} allowed")
            }
            Self::Cancelled => "cancelled".into(),
            Self::Trapped { words } => format!("the component trapped: {words}"),
        }
    }

    /// Returns the exit code for a process, by the same rules as [`Outcome::exit_code`](glovebox::Outcome::exit_code).
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Returned => 0,
            Self::Failed => 1,
            Self::Exited { code } => *code,
            Self::Exhausted { resource: Resource::Time, .. } => 124,
            Self::Exhausted { .. } => 137,
            Self::Cancelled => 130,
            Self::Trapped { .. } => 134,
        }
    }
}

/// Converts a stop reason to an outcome.
pub(crate) fn outcome_of_stop(why: StopReason, limits: &AppLimits, duration: Duration) -> AppOutcome {
    match why {
        StopReason::Cancelled => AppOutcome::Cancelled,
        StopReason::Time => AppOutcome::Exhausted {
            resource: Resource::Time,
            limit: limits.timeout_ms,
            used: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        },
    }
}

/// Converts an error from a call to an outcome. `refused_bytes` is the total that exceeded the memory limit, if any.
pub(crate) fn classify(error: &wasmtime::Error, limits: &AppLimits, refused_bytes: Option<u64>) -> AppOutcome {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return AppOutcome::Exited { code: exit.0 };
    }
    let out_of_memory = refused_bytes.map(|used| AppOutcome::Exhausted {
        resource: Resource::Memory,
        limit: limits.memory_bytes,
        used,
    });
    match (error.downcast_ref::<Trap>(), out_of_memory) {
        (Some(Trap::OutOfFuel), _) => {
            AppOutcome::Exhausted { resource: Resource::Fuel, limit: limits.fuel, used: limits.fuel }
        }
        // Programs usually execute `unreachable` after `memory.grow` fails. A garbage-collected heap that cannot grow
        // traps with `AllocationTooLarge`. An excessive initial memory is an error without a trap.
        (Some(Trap::UnreachableCodeReached | Trap::AllocationTooLarge) | None, Some(outcome)) => outcome,
        (Some(trap), _) => AppOutcome::Trapped { words: trap_message(*trap) },
        (None, None) => AppOutcome::Trapped { words: words(error) },
    }
}

/// Returns a trap's message without its prefix.
fn trap_message(trap: Trap) -> String {
    let words = trap.to_string();
    words.strip_prefix("wasm trap: ").unwrap_or(&words).to_owned()
}

/// Returns the error from a host function or instantiation, with its causes, on one line of limited length.
fn words(error: &wasmtime::Error) -> String {
    let mut words = format!("{error:#}");
    if words.len() > WORDS_BYTES {
        words.truncate(words.floor_char_boundary(WORDS_BYTES));
        words.push('…');
    }
    words
}

/// The reason why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Wasmtime does not support the settings on this machine.
    #[error("components cannot run on this machine: {0}")]
    Settings(String),
    /// The file cannot be read.
    #[error("cannot read `{}`", escaped(path))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The component is larger than 512 MiB.
    #[error("`{name}` is larger than {max} bytes, the maximum size of a component", name = escaped(.name))]
    TooLarge {
        /// The name of the component.
        name: String,
        /// Maximum size in bytes.
        max: u64,
    },
    /// The bytes are not WebAssembly.
    #[error("`{name}` is not a WebAssembly binary (bad magic number)", name = escaped(.name))]
    NotWasm {
        /// The name of the component.
        name: String,
    },
    /// The bytes are a core module.
    #[error("`{name}` is a core module, not a component", name = escaped(.name))]
    CoreModule {
        /// The name of the module.
        name: String,
    },
    /// Compiling the component would cost far more than its size suggests, or the component instantiates an imported
    /// module or component.
    ///
    /// Limits: 1,000 modules and components, about 1,000 nested component types, 10,000 instances, and 4,000,000
    /// initial table elements. All instances together can have 20,000 canonical ABI functions and 250,000 items.
    #[error("`{name}` is rejected before compilation: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Excess {
        /// The name of the component.
        name: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The component does not compile, exceeds the limits of the [`Compiler`](crate::Compiler), or the cache is
    /// unusable.
    #[error("`{name}` cannot be loaded", name = escaped(.name))]
    Compile {
        /// The name of the component.
        name: String,
        /// The cause of the failure.
        source: CompileError,
    },
    /// The component has an import that the host does not provide.
    #[error("cannot provide the import `{import}` of `{name}`", name = escaped(.name), import = escaped(.import))]
    MissingImport {
        /// The name of the component.
        name: String,
        /// The name of the import.
        import: String,
    },
    /// The type of an import differs from the type that the host provides.
    #[error("`{name}` cannot be linked: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Link {
        /// The name of the component.
        name: String,
        /// Wasmtime's message.
        reason: String,
    },
    /// A component loaded for its tools does not export the tools interface.
    #[error(
        "`{name}` exports neither `glovebox:sandbox/tools@0.2.0` nor `@0.3.0`, so it has no tools",
        name = escaped(.name)
    )]
    NoTools {
        /// The name of the component.
        name: String,
    },
    /// The component's tool list is invalid, or the call that lists the tools failed.
    #[error("cannot list the tools of `{name}`: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    ToolList {
        /// The name of the component.
        name: String,
        /// The outcome of the call, or the error in the tool list.
        reason: String,
    },
}

/// The reason why an application cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The component is not a command.
    #[error("`{name}` does not export `wasi:cli/run`, so it cannot be run as a command", name = escaped(.name))]
    NotACommand {
        /// The name of the component.
        name: String,
        /// The exported functions of the component.
        exports: Vec<Export>,
    },
    /// A granted directory cannot be opened.
    #[error("cannot open the directory `{}`: {reason}", escaped(host))]
    Directory {
        /// The path of the directory.
        host: PathBuf,
        /// The cause of the failure.
        reason: String,
    },
    /// A granted directory is missing, or overlaps with one of Glovebox's own directories, such as the cache.
    #[error(transparent)]
    Mount(#[from] glovebox::mount::MountError),
    /// The operating system could not create a thread or its event loop.
    #[error("cannot start a thread for the component")]
    Thread(#[source] io::Error),
}

/// The reason why an export cannot be invoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The text is not a function call.
    #[error("`{call}` is not a call; write it as `name(argument, …)`", call = escaped(.call))]
    NoCall {
        /// The text of the call.
        call: String,
    },
    /// No function has this name.
    #[error("`{name}` exports no function `{function}`", name = escaped(.name), function = escaped(.function))]
    NoSuchFunction {
        /// The name of the component.
        name: String,
        /// The requested function.
        function: String,
        /// The exported functions of the component.
        exports: Vec<Export>,
    },
    /// Several functions have this name.
    #[error("`{function}` is ambiguous; use one of {}", list(candidates), function = escaped(.function))]
    Ambiguous {
        /// The requested function.
        function: String,
        /// The full names of the matching functions.
        candidates: Vec<String>,
    },
    /// The parameters or the result contain a type without a textual form, or more than 1,000 types. Types without a
    /// textual form include resources, streams, futures and maps.
    #[error("cannot invoke `{function}`: its parameters or result contain a type without a textual form, such as a resource or a stream, or more than 1,000 types; call it from another component", function = escaped(.function))]
    NoTextualForm {
        /// The name of the function.
        function: String,
    },
    /// The arguments do not match the function's parameters.
    #[error("`{signature}` does not accept `{arguments}`: {reason}", signature = escaped(.signature), arguments = escaped(.arguments), reason = escaped_text(.reason))]
    Arguments {
        /// Name, parameters and result of the function.
        signature: String,
        /// The arguments of the call.
        arguments: String,
        /// Syntax error, or mismatch between the arguments and the parameters.
        reason: String,
    },
    /// The run could not start.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classified_into_outcomes() {
        let limits = AppLimits { fuel: 7, memory_bytes: 5, timeout_ms: 3, ..AppLimits::default() };
        let read = |error, refused| classify(&error, &limits, refused);
        let memory = AppOutcome::Exhausted { resource: Resource::Memory, limit: 5, used: 6 };
        assert_eq!(read(I32Exit(3).into(), Some(6)), AppOutcome::Exited { code: 3 });
        let fuel = AppOutcome::Exhausted { resource: Resource::Fuel, limit: 7, used: 7 };
        assert_eq!(read(Trap::OutOfFuel.into(), Some(6)), fuel);
        assert_eq!(read(Trap::UnreachableCodeReached.into(), Some(6)), memory);
        let trapped = |trap| AppOutcome::Trapped { words: trap_message(trap) };
        assert_eq!(trap_message(Trap::StackOverflow), "call stack exhausted");
        for trap in [Trap::UnreachableCodeReached, Trap::StackOverflow, Trap::MemoryOutOfBounds] {
            assert_eq!(read(trap.into(), None), trapped(trap));
        }
        assert_eq!(read(Trap::StackOverflow.into(), Some(6)), trapped(Trap::StackOverflow));
        let host = wasmtime::Error::msg("all fuel consumed by WebAssembly").context("outer");
        let classified = AppOutcome::Trapped { words: "outer: all fuel consumed by WebAssembly".into() };
        assert_eq!(read(host, None), classified, "errors are classified by type, not by text");
        let late = Duration::from_millis(4);
        assert_eq!(outcome_of_stop(StopReason::Cancelled, &limits, late), AppOutcome::Cancelled);
        let time = AppOutcome::Exhausted { resource: Resource::Time, limit: 3, used: 4 };
        assert_eq!(outcome_of_stop(StopReason::Time, &limits, late), time);
    }

    #[test]
    fn application_exit_codes_match_scripts() {
        let exhausted = |resource| AppOutcome::Exhausted { resource, limit: 1, used: 2 };
        let table = [
            (AppOutcome::Returned, 0),
            (AppOutcome::Failed, 1),
            (AppOutcome::Exited { code: 7 }, 7),
            (exhausted(Resource::Time), 124),
            (exhausted(Resource::Fuel), 137),
            (exhausted(Resource::Memory), 137),
            (AppOutcome::Cancelled, 130),
            (AppOutcome::Trapped { words: String::new() }, 134),
        ];
        for (outcome, code) in table {
            assert_eq!((outcome.exit_code(), outcome.is_success()), (code, code == 0), "{outcome:?}");
        }
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        let error = wasmtime::Error::msg("é".repeat(1000));
        let AppOutcome::Trapped { words } = classify(&error, &AppLimits::default(), None) else { panic!("a trap") };
        assert!(words.len() <= WORDS_BYTES + 3 && words.ends_with('…'));
    }
}
