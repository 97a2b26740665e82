//! Recorded executions: finished executions, encoded as bytes. A recording can be repeated to compare the results.
//!
//! The bytes contain the request, the journal and the results. Repeating starts the script again, replays its inputs
//! from the journal without calling tools, and compares the results.
//!
//! # Format, version 2
//!
//! The format is that of suspended executions, but the magic bytes are `GLOVEREC`. The body contains the image, the
//! request, the limits, the definitions of the tools, the results and the journal. The seal is always SHA-256.

use std::sync::Arc;

use glovebox_core::{
    Limits, Resource,
    journal::{Journal, Recording as Journaled, SuspendRefusal},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    SuspendedBytesError, check_image,
    results::{RecordedResults, json},
    sealed::SealedFormat,
};
use crate::{ExecuteError, Execution, Outcome, Request, Sandbox, Tool, exec::request::RequestParts, tools::Toolbox};

const FORMAT: SealedFormat = SealedFormat {
    magic: b"GLOVEREC",
    wrong_magic: "they do not begin with `GLOVEREC`",
    version: 2,
    bound_to: "recorded execution",
};

/// Maximum size of the tool definitions in bytes, equal to the limit on the list of tools that scripts read.
const MAX_TOOLS_BYTES: usize = 1 << 20;

/// The limits that can differ when an execution is replayed. The time limits do not affect the results of a replay that
/// ends in time. Recorded executions have no fuel reserve. A replay has no journal of its own. The limits on sessions
/// have no effect, because executions in sessions cannot be recorded.
const FREE_LIMITS: [&str; 7] = [
    "fuel_reserve",
    "timeout_ms",
    "timeout_reserve_ms",
    "tool_timeout_ms",
    "journal_bytes",
    "session_count",
    "session_total_bytes",
];

/// A recorded execution: everything that is needed to repeat it, and digests of its results. [`Execution::recording`]
/// returns it, [`to_bytes`](Self::to_bytes) turns it into bytes, and [`Sandbox::replay`] repeats it.
///
/// A recording proves nothing by itself. To verify the results, repeat the execution.
///
/// ```no_run
/// use glovebox::{Engine, EngineConfig, Recording, Request, Sandbox, Tool};
/// use serde_json::json;
///
/// let engine = Engine::new(EngineConfig::default())?;
/// let price = Tool::new("price", "Returns a price.").handler(|_, _| Ok(json!(20)));
/// let sandbox = Sandbox::builder(&engine).tool(price).build()?;
/// let request = Request::new("import random\nprint(tools.price() + random.random())").recorded(true);
/// let execution = sandbox.run(request)?;
/// let bytes = execution.recording()?.to_bytes();
///
/// // On another machine, without the tool:
/// let sandbox = Sandbox::builder(&engine).build()?;
/// let repeated = sandbox.replay(&Recording::from_bytes(&bytes)?)?;
/// assert_eq!(repeated.stdout, execution.stdout);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The identity of the image that ran the script.
    image_sha256: String,
    /// The name of the runtime, for messages.
    runtime: String,
    request: RequestParts<'static>,
    /// The limits as JSON text.
    limits: String,
    /// The list of tools that scripts read, as JSON text.
    tools: String,
    results: RecordedResults,
    #[serde(serialize_with = "super::shared", deserialize_with = "super::sealed::recording")]
    journal: Arc<Journaled>,
}

/// The reason why an execution has no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The request was not [`recorded`](Request::recorded).
    #[error("the execution was not recorded; run it with `Request::recorded`")]
    NotRecorded,
    /// The script received too much input.
    #[error(
        "the script received more than `limits.journal_bytes` bytes of input (tool results, standard input, random \
         numbers, clock readings and sleeps, plus 16 bytes each); return less from its tools, or call tools and clocks \
         less often"
    )]
    TooLarge,
    /// A time limit or a cancellation interrupted the script. The point of the interruption differs from run to run.
    #[error(
        "a time limit or a cancellation interrupted the script; run it again, and raise `limits.timeout_ms` if it was too low"
    )]
    Interrupted,
}

/// The reason why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not a recording: {reason}")]
pub struct RecordingBytesError {
    /// The first rule that the bytes violate.
    reason: &'static str,
}

impl Recording {
    /// Creates the recording of an execution. `ended` is the journal at the end of the execution, or the reason why the
    /// journal is missing.
    pub(in crate::exec) fn new(
        sandbox: &Sandbox,
        toolbox: &Toolbox,
        request: &RequestParts<'static>,
        ended: Result<Journaled, SuspendRefusal>,
        execution: &Execution,
    ) -> Result<Self, RecordError> {
        if matches!(execution.outcome, Outcome::Cancelled | Outcome::Exhausted { resource: Resource::Time, .. }) {
            return Err(RecordError::Interrupted);
        }
        let journal = ended.map_err(|refusal| match refusal {
            SuspendRefusal::JournalFull => RecordError::TooLarge,
            _ => RecordError::Interrupted,
        })?;
        Ok(Self {
            image_sha256: sandbox.image_sha256().unwrap_or_default().to_owned(),
            runtime: sandbox.runtime_name().to_owned(),
            request: request.clone(),
            limits: json(&sandbox.policy().limits),
            tools: toolbox.catalogue(),
            results: RecordedResults::of(execution),
            journal: Arc::new(journal),
        })
    }

    /// Returns the identity of the image that the execution needs, as in [`Sandbox::image_sha256`].
    #[must_use]
    pub fn image_sha256(&self) -> &str {
        &self.image_sha256
    }

    /// Returns the name of the runtime that ran the script. For information only.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        &self.runtime
    }

    /// Returns the fuel that the recorded execution used.
    #[must_use]
    pub fn fuel_consumed(&self) -> u64 {
        self.results.fuel_consumed
    }

    /// Returns a request that repeats the execution, for [`Sandbox::run`] or [`Sandbox::start`]. No tool is called, and
    /// host directories are not changed.
    ///
    /// The sandbox must have the same image, files and policy as the first sandbox. It needs no tools: the recording
    /// contains their definitions. Time limits can differ. Repeating takes about as much CPU time as the script used,
    /// without its waits, and at most twice `limits.timeout_ms`.
    ///
    /// If the script behaves differently, or if a result differs, the execution ends with
    /// [`ExecuteError::NotRepeated`].
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let mut request = self.request.request();
        request.options.repeated = Some(Arc::new(self.clone()));
        request
    }

    /// Turns the recording into bytes, which are not encrypted. The bytes contain the source, the standard input, and
    /// everything that the script received: answers, times and random numbers.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        FORMAT.seal(self, None)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes). The bytes may be untrusted: they cannot set limits or grant
    /// permissions.
    ///
    /// # Errors
    /// Fails if the bytes are damaged or exceed 64 MiB.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordingBytesError> {
        let recording: Self = FORMAT.open(bytes, None).map_err(|error| RecordingBytesError {
            reason: match error {
                SuspendedBytesError::Damaged { reason } => reason,
                _ => "their seal has an unknown type",
            },
        })?;
        if recording.tools.len() > MAX_TOOLS_BYTES {
            return Err(RecordingBytesError { reason: "the definitions of the tools exceed 1 MiB" });
        }
        Ok(recording)
    }

    pub(in crate::exec) fn journal(&self) -> Journal {
        Journal::replay(Journaled::clone(&self.journal)).whole()
    }

    /// Fails if the execution cannot be repeated in `sandbox`, because its image or a limit differs.
    pub(in crate::exec) fn check(&self, sandbox: &Sandbox) -> Result<(), ExecuteError> {
        check_image(sandbox, &self.image_sha256, &self.runtime)?;
        self.limit_difference(&sandbox.policy().limits).map_or(Ok(()), not_repeated)
    }

    /// Returns the first limit that differs.
    fn limit_difference(&self, limits: &Limits) -> Option<String> {
        let Ok(recorded) = serde_json::from_str::<Limits>(&self.limits) else {
            return Some("the recorded limits cannot be read".to_owned());
        };
        let (Ok(Value::Object(recorded)), Ok(Value::Object(now))) =
            (serde_json::to_value(&recorded), serde_json::to_value(limits))
        else {
            return None;
        };
        let mut compared = now.iter().filter(|(key, _)| !FREE_LIMITS.contains(&key.as_str()));
        compared.find_map(|(key, value)| {
            let was = recorded.get(key)?;
            (was != value).then(|| format!("`limits.{key}` is {value} instead of {was}"))
        })
    }

    /// Returns `own` with the recorded tools that it does not contain. Calls to these tools are never passed to the
    /// caller.
    pub(in crate::exec) fn toolbox(&self, own: &Toolbox) -> Result<Toolbox, ExecuteError> {
        #[derive(Deserialize)]
        struct Catalogue {
            tools: Vec<Definition>,
        }

        #[derive(Deserialize)]
        struct Definition {
            name: String,
            description: String,
            schema: Value,
        }

        let Ok(Catalogue { tools }) = serde_json::from_str(&self.tools) else {
            return not_repeated("the recorded tools cannot be read".to_owned());
        };
        let missing = tools.into_iter().filter(|tool| !own.has(&tool.name));
        let missing = missing.map(|Definition { name, description, schema }| {
            Tool::new(name, description).schema(schema).stepped().untrusted_schema()
        });
        let toolbox = own.with(&missing.collect::<Vec<_>>())?;
        if toolbox.catalogue() == self.tools {
            Ok(toolbox)
        } else {
            not_repeated("the sandbox has different tools".to_owned())
        }
    }

    /// Fails if a result of the repeated execution differs. `has_unreceived` is `true` if the script has not received
    /// everything that the recording contains.
    pub(in crate::exec) fn compare(&self, execution: &Execution, has_unreceived: bool) -> Result<(), ExecuteError> {
        let now = RecordedResults::of(execution);
        self.results.difference(&now, has_unreceived).map_or(Ok(()), not_repeated)
    }
}

fn not_repeated<T>(difference: String) -> Result<T, ExecuteError> {
    Err(ExecuteError::NotRepeated { difference })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glovebox_core::journal::{JournalEntry, MAX_ENTRIES, SuspendedAt};

    use super::*;
    use crate::exec::suspend::results::tests::results;

    fn recording(entries: Vec<JournalEntry>) -> Recording {
        let at = SuspendedAt {
            fuel_used: 7,
            output_bytes: [3, 3],
            elapsed: Duration::from_millis(5),
            monotonic_ns: 0,
            calls: Default::default(),
        };
        Recording {
            image_sha256: "ab".repeat(32),
            runtime: "python-3.15".to_owned(),
            request: Request::new("print(1)").stdin(b"\0in").parts,
            limits: json(&Limits::default()),
            tools: r#"{"tools":[]}"#.to_owned(),
            results: results(),
            journal: Arc::new(Journaled { at, entries }),
        }
    }

    #[test]
    fn changed_bytes_are_rejected() {
        let recording = recording(vec![JournalEntry::Slept, JournalEntry::Random(vec![0, 255])]);
        let bytes = recording.to_bytes();
        assert_eq!(Recording::from_bytes(&bytes), Ok(recording));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Recording::from_bytes(&changed).is_err(), "{at}");
            assert!(Recording::from_bytes(&bytes[..at]).is_err(), "{at}");
        }
        assert!(Recording::from_bytes(&[&*bytes, &[0]].concat()).is_err());
    }

    #[test]
    fn size_of_a_recording_is_limited() {
        for (count, fits) in [(MAX_ENTRIES, true), (MAX_ENTRIES + 1, false)] {
            let bytes = recording(vec![JournalEntry::Slept; count]).to_bytes();
            assert_eq!(Recording::from_bytes(&bytes).is_ok(), fits, "{count}");
        }
        for (count, fits) in [(MAX_TOOLS_BYTES, true), (MAX_TOOLS_BYTES + 1, false)] {
            let bytes = Recording { tools: " ".repeat(count), ..recording(Vec::new()) }.to_bytes();
            assert_eq!(Recording::from_bytes(&bytes).is_ok(), fits, "{count}");
        }
    }

    #[test]
    fn only_limits_that_matter_are_compared() {
        let recording = recording(Vec::new());
        let mut limits = Limits::default();
        (limits.timeout_ms, limits.fuel_reserve) = (1, 1);
        assert_eq!(recording.limit_difference(&limits), None);
        limits.stdout_bytes = 5;
        let difference = recording.limit_difference(&limits).unwrap();
        assert!(difference.starts_with("`limits.stdout_bytes` is 5 instead of "), "{difference}");
        let keys = json(&limits);
        assert!(FREE_LIMITS.iter().all(|key| keys.contains(&format!("\"{key}\""))), "{keys}");
    }
}
