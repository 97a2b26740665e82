//! How an application ended: the one place where that is decided, by type.

use std::time::Duration;

use glovebox::{Resource, component::Usage};
use serde::Serialize;
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::{AppLimits, watch::Why};

/// The longest words of a trap.
const WORDS_BYTES: usize = 500;

/// What one run of an application did and used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// What it did.
    pub outcome: AppOutcome,
    /// What an invoked export returned, as WAVE; none for a command, a function without a result, and one that did not return.
    pub value: Option<String>,
    /// Fuel that its own code used, up to where it was last seen.
    pub fuel_consumed: u64,
    /// Bytes of its linear memories, tables and instances at the end, as [`AppLimits::memory_bytes`] counts them.
    pub memory_bytes: u64,
    /// How long it ran, its instantiation included.
    pub duration: Duration,
    /// What it used of the sandbox when it ended.
    pub sandbox: Usage,
    /// Whether its thread was left behind, because it did not come back from a write to this process's own output. Then fuel,
    /// memory and the use of the sandbox are unknown, 0, and whoever writes to that output may wait as long.
    pub is_left_behind: bool,
}

/// What an application did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AppOutcome {
    /// Its function returned.
    Returned,
    /// Its function returned an error.
    Failed,
    /// It ended itself.
    Exited {
        /// With this code.
        code: i32,
    },
    /// A limit ended it.
    Exhausted {
        /// What ran out.
        resource: Resource,
        /// The limit: units of fuel, bytes, milliseconds.
        limit: u64,
        /// What was used or asked for, in the same unit.
        used: u64,
    },
    /// The caller cancelled it.
    Cancelled,
    /// It broke itself or one of the rules of its host functions.
    Trapped {
        /// Wasmtime's words for it, cut after 500 bytes.
        words: String,
    },
}

impl AppOutcome {
    /// Whether it did what it set out to do.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Returned | Self::Exited { code: 0 })
    }

    /// What happened, in a few words for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Returned => "returned".into(),
            Self::Failed => "returned an error".into(),
            Self::Exited { code } => format!("exited with {code}"),
            Self::Exhausted { resource: Resource::Fuel, limit, .. } => {
                format!("the application is out of fuel: all {limit} units are used")
            }
            Self::Exhausted { resource: Resource::Time, limit, .. } => {
                format!("the application is out of time: more than {limit} ms")
            }
            Self::Exhausted { limit, used, .. } => {
                format!("the application is out of memory: it wanted {used} bytes, the limit is {limit}")
            }
            Self::Cancelled => "cancelled".into(),
            Self::Trapped { words } => format!("the application trapped: {words}"),
        }
    }

    /// The process exit code that stands for it, by the rules of [`Outcome::exit_code`](glovebox::Outcome::exit_code).
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

/// What a run was stopped for, as an outcome.
pub(crate) fn stopped(why: Why, limits: &AppLimits, duration: Duration) -> AppOutcome {
    match why {
        Why::Cancelled => AppOutcome::Cancelled,
        Why::Time => AppOutcome::Exhausted {
            resource: Resource::Time,
            limit: limits.timeout_ms,
            used: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        },
    }
}

/// What ended a call early.
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
        // How programs abort that were refused memory, and how Wasmtime ends those whose first memory is too large.
        (Some(Trap::UnreachableCodeReached | Trap::AllocationTooLarge) | None, Some(outcome)) => outcome,
        (Some(trap), _) => AppOutcome::Trapped { words: plain(*trap) },
        (None, None) => AppOutcome::Trapped { words: words(error) },
    }
}

/// A trap's own words.
fn plain(trap: Trap) -> String {
    let words = trap.to_string();
    words.strip_prefix("wasm trap: ").unwrap_or(&words).to_owned()
}

/// An error of a host function, or of instantiation: its causes on one line.
fn words(error: &wasmtime::Error) -> String {
    let mut words = format!("{error:#}");
    if words.len() > WORDS_BYTES {
        words.truncate(words.floor_char_boundary(WORDS_BYTES));
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_an_application_ends_has_its_own_reading() {
        let limits = AppLimits { fuel: 7, memory_bytes: 5, timeout_ms: 3, ..AppLimits::default() };
        let read = |error, refused| classify(&error, &limits, refused);
        let memory = AppOutcome::Exhausted { resource: Resource::Memory, limit: 5, used: 6 };
        assert_eq!(read(I32Exit(3).into(), Some(6)), AppOutcome::Exited { code: 3 });
        let fuel = AppOutcome::Exhausted { resource: Resource::Fuel, limit: 7, used: 7 };
        assert_eq!(read(Trap::OutOfFuel.into(), Some(6)), fuel);
        assert_eq!(read(Trap::UnreachableCodeReached.into(), Some(6)), memory);
        let trapped = |trap| AppOutcome::Trapped { words: plain(trap) };
        assert_eq!(plain(Trap::StackOverflow), "call stack exhausted");
        for trap in [Trap::UnreachableCodeReached, Trap::StackOverflow, Trap::MemoryOutOfBounds] {
            assert_eq!(read(trap.into(), None), trapped(trap));
        }
        assert_eq!(read(Trap::StackOverflow.into(), Some(6)), trapped(Trap::StackOverflow));
        let host = wasmtime::Error::msg("all fuel consumed by WebAssembly").context("outer");
        let said = AppOutcome::Trapped { words: "outer: all fuel consumed by WebAssembly".into() };
        assert_eq!(read(host, None), said, "text is never looked at");
        let late = Duration::from_millis(4);
        assert_eq!(stopped(Why::Cancelled, &limits, late), AppOutcome::Cancelled);
        let time = AppOutcome::Exhausted { resource: Resource::Time, limit: 3, used: 4 };
        assert_eq!(stopped(Why::Time, &limits, late), time);
    }

    #[test]
    fn exit_codes_are_those_of_scripts() {
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
    fn long_words_are_cut_within_no_character() {
        let error = wasmtime::Error::msg("é".repeat(1000));
        let AppOutcome::Trapped { words } = classify(&error, &AppLimits::default(), None) else { panic!("a trap") };
        assert!(words.len() <= WORDS_BYTES + 3 && words.ends_with('…'));
    }
}
