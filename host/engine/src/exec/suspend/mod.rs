//! Suspended executions: executions that wait for their caller's answers, encoded as bytes. The bytes can be stored and
//! resumed later, in another process or on another machine.
//!
//! The bytes contain the request and the execution's journal ([`glovebox_core::journal`]). Resuming starts the script
//! again and replays its inputs from the journal, without calling tools. The script then waits for the same calls.
//!
//! # Format, version 2
//!
//! | part | content |
//! |---|---|
//! | magic | the eight bytes `GLOVESUS` |
//! | version | 2 bytes: 2, little-endian |
//! | seal | 1 byte: 1 SHA-256, 2 HMAC-SHA-256 |
//! | reserved | 1 byte: 0 |
//! | body | the image, the request and the journal, in the postcard format |
//! | trailer | 32 bytes: the seal over all preceding bytes |

mod fork;
mod peek;
pub(crate) mod recording;
mod results;
mod sealed;
mod suspension;

use std::{sync::Arc, time::Duration};

use glovebox_core::journal::{JOURNAL_BYTES, Journal, Recording, SuspendRefusal};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use fork::{Fork, ForkError};
pub use peek::UncheckedSuspended;
use sealed::SealedFormat;
pub(in crate::exec) use sealed::{check_context, checked_context};
pub use suspension::StateBefore;
pub(in crate::exec) use suspension::SuspensionParts;
pub(crate) use suspension::{Suspension, call_bytes};

use crate::{
    ExecuteError, HibernateError, Request, Sandbox, SessionKey, ToolRequest, exec::request::RequestParts,
    tools::Toolbox,
};

const FORMAT: SealedFormat = SealedFormat {
    magic: b"GLOVESUS",
    wrong_magic: "they do not begin with `GLOVESUS`",
    version: 2,
    bound_to: "suspended execution",
};

/// An execution that was suspended while it waited for its caller's answers. [`Started::suspend`](crate::Started::suspend)
/// creates it, [`to_bytes`](Self::to_bytes) turns it into bytes, and [`request`](Self::request) resumes it.
///
/// Resuming does not consume the value. To try several answers to the same call, [`fork`](Self::fork) the execution.
///
/// ```no_run
/// use glovebox::{Engine, EngineConfig, Request, Sandbox, Step, Suspended, Tool, ToolAnswer};
/// use serde_json::json;
///
/// let engine = Engine::new(EngineConfig::default())?;
/// let sandbox = Sandbox::builder(&engine).tool(Tool::new("pay", "Pays an invoice.").stepped()).build()?;
///
/// let request = Request::new("print('before')\nprint(tools.pay(euros=20))").suspendable(true);
/// let started = sandbox.start(request)?;
/// started.advance(Vec::new(), None)?;
/// let bytes = started.suspend()?.to_bytes(None);
///
/// // Days later, in another process:
/// let suspended = Suspended::from_bytes(&bytes, None)?;
/// let call = &suspended.tool_requests()[0];
/// let resumed = sandbox.start(suspended.request())?;
/// resumed.advance(Vec::new(), None)?;
/// let Step::Done(execution) = resumed.advance(vec![ToolAnswer::value(call.id, &json!("paid"))], None)? else { panic!() };
/// assert_eq!(execution.stdout.text(), "before\npaid\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    /// The identity of the image that runs the script.
    image_sha256: String,
    /// The name of the runtime, for messages.
    runtime: String,
    #[serde(serialize_with = "shared", deserialize_with = "to_shared")]
    request: Arc<RequestParts<'static>>,
    /// The hibernated session before the execution. `None` outside sessions.
    #[serde(serialize_with = "shared", deserialize_with = "to_shared")]
    session: Arc<Option<Vec<u8>>>,
    #[serde(serialize_with = "shared", deserialize_with = "sealed::recording")]
    recording: Arc<Recording>,
}

/// Serializes the value behind the `Arc`.
fn shared<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    T::serialize(value, serializer)
}

fn to_shared<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// The reason why an execution could not be suspended. The execution continues, except after
/// [`Session`](Self::Session).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// The request is not [`suspendable`](Request::suspendable).
    #[error("the execution has no journal; start it with `Request::suspendable`")]
    NotSuspendable,
    /// The script is not waiting for its caller.
    #[error("the script is not waiting for answers; call `advance` until it returns `NeedsTools`")]
    Running,
    /// The execution has ended.
    #[error("the execution has ended; read its result with `advance`")]
    Ended,
    /// The execution cannot be suspended in its current state.
    #[error(transparent)]
    Refused(#[from] SuspendRefusal),
    /// The state of the session before the execution could not be serialized. The execution has ended.
    #[error("the session could not be suspended: {0}")]
    Session(Arc<HibernateError>),
}

/// The reason why bytes are not a suspended execution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendedBytesError {
    /// The bytes are not a suspended execution, are damaged, or have another format version.
    #[error("these bytes are not a suspended execution: {reason}")]
    Damaged {
        /// The first rule that the bytes violate.
        reason: &'static str,
    },
    /// The bytes were not sealed with a key.
    #[error(
        "the suspended execution is not sealed with a key; use one that was sealed with this key, or resume it without a key if you trust its origin"
    )]
    Unauthenticated,
    /// The bytes were sealed with a key.
    #[error("the suspended execution is sealed with a key; pass the session key to resume it")]
    KeyMissing,
    /// The bytes were sealed with another key, or were modified after they were sealed.
    #[error(
        "the suspended execution was sealed with another key, or was modified; pass the original key, or use an unmodified copy"
    )]
    NotAuthentic,
}

impl Suspended {
    /// Maximum size of the bytes that [`from_bytes`](Self::from_bytes) accepts: 64 MiB.
    pub const MAX_BYTES: usize = sealed::MAX_BYTES;

    pub(in crate::exec) fn new(
        sandbox: &Sandbox,
        request: Arc<RequestParts<'static>>,
        session: Option<Vec<u8>>,
        recording: Recording,
    ) -> Self {
        let image_sha256 = sandbox.image_sha256().unwrap_or_default().to_owned();
        let (session, recording) = (Arc::new(session), Arc::new(recording));
        Self { image_sha256, runtime: sandbox.runtime_name().to_owned(), request, session, recording }
    }

    /// Returns the hibernated session before the execution, or `None` if the execution was suspended outside a session.
    pub(crate) fn session(&self) -> Option<&[u8]> {
        (*self.session).as_deref()
    }

    /// Returns the request that starts the execution again.
    pub(in crate::exec) fn first_request(&self) -> Arc<RequestParts<'static>> {
        Arc::clone(&self.request)
    }

    /// Returns the script's source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.request.source
    }

    /// Returns `true` if the execution was suspended in a session. Such an execution is resumed in the session that
    /// [`Sandbox::resume_suspended_session`](crate::Sandbox::resume_suspended_session) restores.
    #[must_use]
    pub fn is_in_session(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the unanswered calls, in the order in which the script made them. [`ToolRequest::approve`] is `false` in
    /// all of them, because the policy is not part of the execution. Use
    /// [`Policy::needs_approval`](crate::Policy::needs_approval) instead.
    #[must_use]
    pub fn tool_requests(&self) -> Vec<ToolRequest> {
        let calls = self.recording.at.calls.unanswered.iter();
        let requested = calls.map(|call| ToolRequest {
            id: call.index as u64,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            approve: false,
        });
        requested.collect()
    }

    /// Returns the identity of the image that the execution needs, as in
    /// [`Sandbox::image_sha256`](crate::Sandbox::image_sha256).
    #[must_use]
    pub fn image_sha256(&self) -> &str {
        &self.image_sha256
    }

    /// Returns the ID of the script's session, if the first request had a session ID.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.request.session_id.as_deref()
    }

    /// Returns the generation of the stored session before the execution, if the first request specified a generation
    /// ([`Request::session_generation`]). If the store has a different generation now, the session has changed since,
    /// and restoring the state in these bytes would discard the changes.
    #[must_use]
    pub fn session_generation(&self) -> Option<u64> {
        self.request.session_generation
    }

    /// Returns the name of the runtime that ran the script. For information only.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        &self.runtime
    }

    /// Returns a request that resumes the execution, for [`Sandbox::start`](crate::Sandbox::start), or for
    /// [`Session::start`](crate::Session::start) if it [`is_in_session`](Self::is_in_session). The script starts again,
    /// and repeats its earlier steps without calling tools. Then it waits for the unanswered calls, which
    /// [`Started::advance`](crate::Started::advance) returns. The result contains everything since the first start:
    /// output, fuel and tool calls. A listener for output receives only new output.
    ///
    /// The sandbox must have the same image, files and tools as the first sandbox. Its limits apply to the whole
    /// execution. Repeating takes about as much CPU time as the script has used so far, without its waits, and does not
    /// count towards `limits.timeout_ms`. Unanswered calls get their full `limits.tool_timeout_ms` again.
    ///
    /// The resumed execution can be suspended again. If the first request set [`Request::stdin_from`], set it again.
    /// Otherwise, input that the script has not read yet is empty.
    ///
    /// If the script behaves differently, for example because a file is different, the execution ends with
    /// [`ExecuteError::Diverged`].
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let mut request = self.request.request().suspendable(true);
        request.options.replay = Some(Arc::new(self.clone()));
        request
    }

    /// Turns the execution into bytes. They contain the source, the standard input, and everything that the script
    /// received: answers, times and random numbers. With a key, only holders of the key can create bytes that
    /// [`from_bytes`](Self::from_bytes) accepts with the key. Without a key, the bytes contain a checksum. The bytes
    /// are not encrypted.
    #[must_use]
    pub fn to_bytes(&self, key: Option<&SessionKey>) -> Vec<u8> {
        FORMAT.seal(self, key)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes). The bytes may be untrusted: they cannot set limits or grant
    /// permissions.
    ///
    /// # Errors
    /// Fails if the bytes are damaged or exceed 64 MiB, or if their seal does not match the key.
    pub fn from_bytes(bytes: &[u8], key: Option<&SessionKey>) -> Result<Self, SuspendedBytesError> {
        FORMAT.open(bytes, key)
    }

    /// Returns the time that the execution had taken when it was suspended.
    pub(in crate::exec) fn elapsed(&self) -> Duration {
        self.recording.at.elapsed
    }

    /// Returns the sizes of the output at the suspension.
    pub(in crate::exec) fn output_bytes(&self) -> [u64; 2] {
        self.recording.at.output_bytes
    }

    pub(in crate::exec) fn journal(&self) -> Journal {
        Journal::replay(Recording::clone(&self.recording))
    }

    /// Fails if the execution was suspended in a session but is resumed outside a session, or the reverse.
    pub(crate) fn check_place(&self, in_session: bool) -> Result<(), ExecuteError> {
        let was_in_session = self.is_in_session();
        if was_in_session == in_session {
            Ok(())
        } else {
            Err(ExecuteError::OtherSession { in_session: was_in_session })
        }
    }

    /// Fails if one of the unanswered calls would not wait for the caller. This is the case if a handler would answer
    /// the call, or if it needs approval and the caller does not approve calls. The caller's answer, such as a refusal,
    /// would then have no effect.
    pub(in crate::exec) fn check_tools(&self, toolbox: &Toolbox, is_approver: bool) -> Result<(), ExecuteError> {
        let mut names = self.recording.at.calls.unanswered.iter().map(|call| &call.name);
        let difference = names.find_map(|name| {
            if toolbox.has_handler(name) {
                return Some(format!("the tool `{name}` now has a handler, but a suspended call waits for its caller"));
            }
            (!is_approver && toolbox.needs_approval(name)).then(|| {
                format!(
                    "a suspended call to `{name}` needs an approval (`tools.{name}.approve`); set `Request::approvals`"
                )
            })
        });
        difference.map_or(Ok(()), |difference| Err(ExecuteError::Diverged { difference }))
    }

    /// Fails if the execution cannot be resumed in `sandbox`.
    pub(in crate::exec) fn check(&self, sandbox: &Sandbox) -> Result<(), ExecuteError> {
        check_image(sandbox, &self.image_sha256, &self.runtime)
    }
}

/// Fails if the sandbox's image is not `expected`. `expected_runtime` is the name of that image's runtime, for the
/// error.
fn check_image(sandbox: &Sandbox, expected: &str, expected_runtime: &str) -> Result<(), ExecuteError> {
    if sandbox.image_sha256() == Some(expected) {
        return Ok(());
    }
    Err(ExecuteError::OtherImage {
        expected: expected.to_owned(),
        expected_runtime: expected_runtime.to_owned(),
        runtime: sandbox.runtime_name().to_owned(),
    })
}

/// The documentation of [`Request::suspendable`] states the default of `limits.journal_bytes`.
const _: () = assert!(JOURNAL_BYTES == 1 << 20);

#[cfg(test)]
mod tests {
    use glovebox_core::{
        hibernate::SEAL_BYTES,
        journal::{CallEnded, JournalEntry, MAX_ENTRIES, SuspendedAt, SuspendedCalls, UnansweredCall},
        tools::{CallFailure, ToolErrorKind},
    };

    use super::*;

    fn suspended(entries: Vec<JournalEntry>) -> Suspended {
        let call = UnansweredCall { index: 2, name: "pay".to_owned(), arguments: r#"{"euros":20}"#.to_owned() };
        let at = SuspendedAt {
            fuel_used: 1 << 40,
            output_bytes: [3, 4],
            elapsed: Duration::from_millis(1_500),
            monotonic_ns: 9,
            calls: SuspendedCalls { unanswered: vec![call], queued: 2, times: vec![Duration::from_nanos(5); 5] },
        };
        let request = Request::new("tools.pay(euros=20)").name("é.py").stdin(b"\0in").parts;
        Suspended {
            image_sha256: "ab".repeat(32),
            runtime: "python-3.15".to_owned(),
            request: Arc::new(request),
            session: Arc::new(Some(vec![1, 2])),
            recording: Arc::new(Recording { at, entries }),
        }
    }

    fn all_entries() -> Vec<JournalEntry> {
        let ended = |answer| {
            let ended = Duration::from_nanos(17);
            JournalEntry::CallEnded(CallEnded {
                index: 1,
                answer,
                has_run: true,
                is_counted: true,
                ended,
                own_replies: 3,
            })
        };
        vec![
            JournalEntry::Realtime(u64::MAX),
            JournalEntry::Monotonic(0),
            JournalEntry::Random(vec![0, 255]),
            JournalEntry::Stdin(None),
            JournalEntry::Stdin(Some(b"x".to_vec())),
            JournalEntry::Slept,
            ended(Ok("[1.0]".to_owned())),
            ended(Err(CallFailure::new(ToolErrorKind::Timeout, "late"))),
            JournalEntry::Received(true),
        ]
    }

    #[test]
    fn bytes_are_read_back() {
        let suspended = suspended(all_entries());
        let key = SessionKey::new(&[7; 32]).unwrap();
        for key in [None, Some(&key)] {
            let bytes = suspended.to_bytes(key);
            assert_eq!(Suspended::from_bytes(&bytes, key), Ok(suspended.clone()));
        }
        let [call] = &suspended.tool_requests()[..] else { panic!() };
        assert_eq!((call.id, &*call.name, &*call.arguments), (2, "pay", r#"{"euros":20}"#));
    }

    #[test]
    fn changed_bytes_are_rejected() {
        let bytes = suspended(all_entries()).to_bytes(None);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Suspended::from_bytes(&changed, None).is_err(), "{at}");
            assert!(Suspended::from_bytes(&bytes[..at], None).is_err(), "{at}");
        }
        assert!(Suspended::from_bytes(&[&*bytes, &[0]].concat(), None).is_err());
    }

    #[test]
    fn bytes_with_a_key_need_the_same_key() {
        let (key, other) = (SessionKey::new(&[7; 32]).unwrap(), SessionKey::new(&[8; 32]).unwrap());
        let (plain, sealed) = (suspended(Vec::new()).to_bytes(None), suspended(Vec::new()).to_bytes(Some(&key)));
        assert_eq!(Suspended::from_bytes(&plain, Some(&key)), Err(SuspendedBytesError::Unauthenticated));
        assert_eq!(Suspended::from_bytes(&sealed, None), Err(SuspendedBytesError::KeyMissing));
        assert_eq!(Suspended::from_bytes(&sealed, Some(&other)), Err(SuspendedBytesError::NotAuthentic));
    }

    #[test]
    fn context_must_be_json() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let texts =
            [r#" {"a": 1}"#.to_owned(), nested(127), nested(128), "{".to_owned(), "1 2".to_owned(), String::new()];
        for (at, text) in texts.into_iter().enumerate() {
            let mut suspended = suspended(Vec::new());
            Arc::make_mut(&mut suspended.request).context = Some(text.clone().into());
            let read = Suspended::from_bytes(&suspended.to_bytes(None), None);
            assert_eq!(read.is_ok(), at < 2, "{text}");
            assert_eq!(check_context(Some(&text)).is_ok(), at < 2, "{text}");
        }
    }

    #[test]
    fn number_of_entries_is_limited() {
        for (count, fits) in [(MAX_ENTRIES - 1, true), (MAX_ENTRIES, true), (MAX_ENTRIES + 1, false)] {
            let bytes = suspended(vec![JournalEntry::Slept; count]).to_bytes(None);
            assert_eq!(Suspended::from_bytes(&bytes, None).is_ok(), fits, "{count}");
        }
    }

    #[test]
    fn peek_reads_the_source_and_bounds_the_memory() {
        let bytes = |count| suspended(vec![JournalEntry::Slept; count]).to_bytes(None);
        let (none, all) = (bytes(0), bytes(MAX_ENTRIES));
        let memory = |bytes: &[u8]| Suspended::peek(bytes).unwrap().memory_bytes;
        assert_eq!(Suspended::peek(&all).map(|peek| peek.source), Some("tools.pay(euros=20)"));
        assert!(memory(&none) > 2 * none.len(), "the unanswered call");
        // An entry without texts is one byte long.
        let entries = memory(&all) - memory(&none) - 2 * (all.len() - none.len());
        assert!(entries >= 3 * MAX_ENTRIES * size_of::<JournalEntry>(), "{entries}");
        // The bytes end with the number of entries and the seal.
        let body = none.len() - SEAL_BYTES;
        for at in 0..body {
            assert_eq!(Suspended::peek(&none[..at]), None, "{at}");
        }
        assert!(Suspended::peek(&none[..body]).is_some(), "the seal is not checked");
    }
}
