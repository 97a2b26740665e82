//! The opaque `requestState` of a call that waits for approvals. The client returns it unchanged with its answers.
//!
//! A state is sealed and bound to the arguments of the call, because it determines which calls an answer approves. It
//! is not encrypted.
//!
//! | part | content |
//! |---|---|
//! | seal | 32 bytes: the seal over the digest of the arguments and all other parts |
//! | kind | 1 byte: 1 a suspended execution, 2 an execution in memory, 3 an execution that was suspended in a session |
//! | nonce | 32 random bytes |
//! | questions | 1 byte: the number of calls that the client is asked about; 32 bytes for each: its digest |
//! | payload | the rest: the bytes of the suspended execution, or the ID of the execution |
//!
//! With kind 3, the payload begins with the length of the session's generation in 1 byte, and the generation. The
//! arguments contain the session's ID.

use std::{
    collections::VecDeque,
    io::{self, BufWriter},
    sync::{Mutex, OnceLock, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use glovebox::{SessionKey, ToolRequest};
use glovebox_core::hibernate::{SEAL_BYTES, Seal};
use rmcp::model::JsonObject;
use sha2::{Digest as _, Sha256};

use super::decision::MAX_QUESTIONS;
use crate::{Service, ServiceError, mcp::outputs::random};

/// Maximum size of the suspended execution in a `requestState`, in bytes. 6 MiB are 8 MiB as base64, which is within the
/// default message size limits of clients.
pub(super) const MAX_SUSPENDED_BYTES: usize = 6 << 20;

/// The size of a nonce in bytes.
const NONCE_BYTES: usize = 32;

/// The size of a call's digest in bytes.
const CALL_BYTES: usize = 32;

/// Maximum size of a session's generation in a state, with its length, in bytes.
const MAX_GENERATION_BYTES: usize = 256;

/// Maximum length of a state in characters.
const MAX_STATE_CHARS: usize =
    (2 + NONCE_BYTES + MAX_QUESTIONS * CALL_BYTES + SEAL_BYTES + MAX_GENERATION_BYTES + MAX_SUSPENDED_BYTES)
        .div_ceil(3)
        * 4;

/// Maximum number of used states and calls that a server remembers.
const MAX_USED: usize = 10_000;

/// A nonce that identifies a state, or a call of an execution in memory.
pub(super) type Nonce = [u8; NONCE_BYTES];

/// A digest of a tool call: its ID, its tool and its arguments.
pub(super) type CallDigest = [u8; CALL_BYTES];

pub(super) fn call_digest(call: &ToolRequest) -> CallDigest {
    let mut digest = Sha256::new();
    digest.update(call.id.to_le_bytes());
    digest.update((call.name.len() as u64).to_le_bytes());
    digest.update(&call.name);
    digest.update(&call.arguments);
    digest.finalize().into()
}

/// Returns the nonce of a call of an execution in memory, for [`RequestStates::use_once`].
pub(super) fn call_nonce(execution: &str, call: u64) -> Nonce {
    let mut digest = Sha256::new();
    digest.update(call.to_le_bytes());
    digest.update(execution);
    digest.finalize().into()
}

/// A digest of a call's arguments.
pub(in crate::mcp) type ArgumentsDigest = [u8; 32];

/// Returns a call's arguments and their digest. Arguments can be 48 MiB long, and hashing them takes about 0.1 s, so
/// this runs on a blocking thread.
pub(in crate::mcp) async fn with_digest(arguments: JsonObject) -> Result<(JsonObject, ArgumentsDigest), ServiceError> {
    Service::blocking(move || {
        let digest = digest(&arguments);
        (arguments, digest)
    })
    .await
}

/// Returns a digest of a call's arguments. Serializes them in chunks, to avoid a copy of the whole text.
fn digest(arguments: &JsonObject) -> ArgumentsDigest {
    let mut text = BufWriter::with_capacity(DIGEST_BUFFER_BYTES, HashWriter(Sha256::new()));
    // Neither the writer nor the serialization of JSON values can fail.
    let _ = serde_json::to_writer(&mut text, arguments);
    text.into_inner().map(|HashWriter(digest)| digest.finalize().into()).unwrap_or_default()
}

/// The buffer size for hashing JSON text, in bytes.
const DIGEST_BUFFER_BYTES: usize = 64 << 10;

/// A writer that only hashes its bytes.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A run of `run_code` that waits for approvals.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaitingRun {
    /// A suspended execution. Every server with the same key can resume it. In a session, the server also needs the
    /// same store.
    Suspended(SuspendedRun),
    /// The ID of an execution in this server's memory. Only an execution in a session waits in memory, and only if it
    /// cannot be suspended.
    InMemory(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SuspendedRun {
    pub(super) bytes: Vec<u8>,
    /// The generation of the execution's session after the suspension. `None` outside sessions.
    pub(super) generation: Option<String>,
}

/// The content of a state. If a client returned the state, its seal was verified.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenedState {
    pub(super) run: WaitingRun,
    pub(super) nonce: Nonce,
    /// The digests of the calls that the client was asked about.
    pub(super) question_digests: Vec<CallDigest>,
}

impl OpenedState {
    /// Parses the parts of a state after its seal.
    fn parse(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first()?;
        let (question_digests, payload) = rest.split_at_checked(usize::from(*count) * CALL_BYTES)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (generation, payload) = match kind {
            3 => {
                let (length, rest) = payload.split_first()?;
                let (generation, bytes) = rest.split_at_checked(usize::from(*length))?;
                (Some(text(generation)?), bytes)
            }
            _ => (None, payload),
        };
        if payload.len() > MAX_SUSPENDED_BYTES {
            return None;
        }
        let run = match kind {
            1 | 3 => WaitingRun::Suspended(SuspendedRun { bytes: payload.to_vec(), generation }),
            2 => WaitingRun::InMemory(text(payload)?),
            _ => return None,
        };
        Some(Self { run, nonce: *nonce, question_digests: question_digests.as_chunks().0.to_vec() })
    }
}

/// The states of one tenant. Seals and opens them with the tenant's key, and remembers which states were already used.
#[derive(Debug)]
pub(in crate::mcp) struct RequestStates {
    /// `None` if the tenant has no key. A random key is then used, and only this server can open its states.
    key: Option<SessionKey>,
    random_key: OnceLock<SessionKey>,
    bound_to: String,
    /// The nonces most recently passed to [`use_once`](Self::use_once).
    used: Mutex<VecDeque<Nonce>>,
}

impl RequestStates {
    pub(in crate::mcp) fn new(tenant: &str, key: Option<SessionKey>) -> Self {
        // The spaces distinguish this text from the IDs of sessions, whose seals use the same key.
        let bound_to = format!("MCP request states of {tenant}");
        Self { key, random_key: OnceLock::new(), bound_to, used: Mutex::default() }
    }

    fn key(&self) -> Result<&SessionKey, ServiceError> {
        if let Some(key) = self.key.as_ref().or_else(|| self.random_key.get()) {
            return Ok(key);
        }
        let random: [u8; SessionKey::MIN_BYTES] = random()?;
        let key = SessionKey::new(&random).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        Ok(self.random_key.get_or_init(|| key))
    }

    fn seal(&self, body: &[u8], arguments: &ArgumentsDigest) -> Result<Seal, ServiceError> {
        let mut seal = Seal::new(Some(self.key()?), &self.bound_to);
        seal.update(arguments);
        seal.update(body);
        Ok(seal)
    }

    /// Returns the state for a call with these arguments. `question_digests` contains the digests of the calls that the
    /// client is asked about, at most [`MAX_QUESTIONS`].
    pub(super) fn close(
        &self,
        run: &WaitingRun,
        question_digests: &[CallDigest],
        arguments: &ArgumentsDigest,
    ) -> Result<String, ServiceError> {
        let (kind, generation, payload) = match run {
            WaitingRun::Suspended(SuspendedRun { bytes, generation: None }) => (1, None, bytes.as_slice()),
            WaitingRun::Suspended(SuspendedRun { bytes, generation }) => (3, generation.as_ref(), bytes.as_slice()),
            WaitingRun::InMemory(execution) => (2, None, execution.as_bytes()),
        };
        let mut bytes = vec![0; SEAL_BYTES];
        bytes.push(kind);
        bytes.extend_from_slice(&random::<NONCE_BYTES>()?);
        bytes.push(u8::try_from(question_digests.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(question_digests.as_flattened());
        if let Some(generation) = generation {
            // A generation consists of a time and a number, so its length always fits in a byte.
            bytes.push(u8::try_from(generation.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(generation.as_bytes());
        }
        bytes.extend_from_slice(payload);
        let (seal, body) = bytes.split_at_mut(SEAL_BYTES);
        seal.copy_from_slice(&self.seal(body, arguments)?.finish());
        Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Verifies a state that a client returned with these arguments.
    pub(super) fn open(&self, state: &str, arguments: &ArgumentsDigest) -> Result<OpenedState, ServiceError> {
        if state.len() > MAX_STATE_CHARS {
            return Err(invalid());
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).map_err(|_| invalid())?;
        let (seal, body) = bytes.split_first_chunk::<SEAL_BYTES>().ok_or_else(invalid)?;
        match self.seal(body, arguments)?.verify(seal) {
            true => OpenedState::parse(body).ok_or_else(invalid),
            false => Err(invalid()),
        }
    }

    /// Records nonces whose calls are about to be made or refused: the nonce of a suspended execution's state, or the
    /// [`call_nonce`] of each call of an execution in memory.
    ///
    /// # Errors
    /// Fails, and records nothing, if this server has already recorded one of the nonces. Without this check, a client
    /// that repeats its request would repeat the effects of the calls.
    pub(super) fn use_once(&self, nonces: &[Nonce]) -> Result<(), ServiceError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if nonces.iter().any(|nonce| used.contains(nonce)) {
            return Err(ServiceError::Invalid(
                "the calls of this `requestState` were already approved and do not run again; call `run_code` \
                 without it to run the script from the start"
                    .to_owned(),
            ));
        }
        used.extend(nonces);
        let oldest = used.len().saturating_sub(MAX_USED);
        used.drain(..oldest);
        Ok(())
    }
}

fn invalid() -> ServiceError {
    ServiceError::Invalid(
        "`requestState` is not valid for this call: it was changed, belongs to a call with other arguments, or was \
         sealed with another key; return it unchanged with the same arguments, or call `run_code` without it"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARGUMENTS: ArgumentsDigest = [7; 32];

    fn states(tenant: &str, key: u8) -> RequestStates {
        RequestStates::new(tenant, Some(SessionKey::new(&[key; 32]).unwrap()))
    }

    fn run(length: usize) -> WaitingRun {
        WaitingRun::Suspended(SuspendedRun { bytes: vec![1; length], generation: None })
    }

    fn in_session(length: usize) -> WaitingRun {
        WaitingRun::Suspended(SuspendedRun { bytes: vec![1; length], generation: Some("1764442800000-7".to_owned()) })
    }

    fn call(id: u64, name: &str, arguments: &str) -> ToolRequest {
        serde_json::from_value(json!({ "id": id, "name": name, "arguments": arguments })).unwrap()
    }

    #[test]
    fn state_is_opened_with_the_same_key_tenant_and_arguments_only() {
        fn in_memory() -> WaitingRun {
            WaitingRun::InMemory("execution".to_owned())
        }
        let runs: [fn() -> WaitingRun; 5] =
            [|| run(0), || run(1_000), in_memory, || in_session(0), || in_session(1_000)];
        for (make, calls) in runs.into_iter().zip([0, 1, MAX_QUESTIONS, 1, MAX_QUESTIONS]) {
            let question_digests = vec![[9; CALL_BYTES]; calls];
            let state = states("a", 1).close(&make(), &question_digests, &ARGUMENTS).unwrap();
            let opened = states("a", 1).open(&state, &ARGUMENTS).unwrap();
            assert_eq!((opened.run, opened.question_digests), (make(), question_digests));
            assert!(states("a", 2).open(&state, &ARGUMENTS).is_err(), "another key");
            assert!(states("b", 1).open(&state, &ARGUMENTS).is_err(), "another tenant");
            assert!(states("a", 1).open(&state, &[8; 32]).is_err(), "other arguments");
        }
        let (one, other) = (RequestStates::new("a", None), RequestStates::new("a", None));
        let state = one.close(&in_memory(), &[], &ARGUMENTS).unwrap();
        assert!(one.open(&state, &ARGUMENTS).is_ok());
        assert!(other.open(&state, &ARGUMENTS).is_err(), "another server without a key");
    }

    #[test]
    fn changed_state_is_rejected() {
        let states = states("a", 1);
        for run in [run(100), in_session(100)] {
            let state = states.close(&run, &[[9; CALL_BYTES]; 2], &ARGUMENTS).unwrap();
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(&state).unwrap();
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(states.open(&BASE64_URL_SAFE_NO_PAD.encode(&changed), &ARGUMENTS).is_err(), "byte {at}");
                assert!(states.open(&BASE64_URL_SAFE_NO_PAD.encode(&bytes[..at]), &ARGUMENTS).is_err(), "{at} bytes");
            }
        }
        for text in ["", "%", "é", "AAAA"] {
            assert!(states.open(text, &ARGUMENTS).is_err(), "{text}");
        }
    }

    #[test]
    fn state_at_the_limit_is_opened_and_over_it_rejected() {
        let states = states("a", 1);
        for (bytes, is_refused) in
            [(MAX_SUSPENDED_BYTES - 1, false), (MAX_SUSPENDED_BYTES, false), (MAX_SUSPENDED_BYTES + 1, true)]
        {
            for (run, calls) in [(run(bytes), 0), (run(bytes), MAX_QUESTIONS), (in_session(bytes), MAX_QUESTIONS)] {
                let state = states.close(&run, &vec![[9; CALL_BYTES]; calls], &ARGUMENTS).unwrap();
                assert_eq!(states.open(&state, &ARGUMENTS).is_err(), is_refused, "{bytes}");
            }
        }
    }

    #[test]
    fn calls_of_a_state_are_made_once() {
        let states = states("a", 1);
        let nonce = || {
            let state = states.close(&run(1), &[], &ARGUMENTS).unwrap();
            states.open(&state, &ARGUMENTS).unwrap().nonce
        };
        let first = nonce();
        states.use_once(&[first]).unwrap();
        for _ in 1..MAX_USED {
            states.use_once(&[nonce()]).unwrap();
        }
        assert!(states.use_once(&[first]).unwrap_err().to_string().contains("already approved"));
        assert_eq!(states.used.lock().unwrap().len(), MAX_USED);
        states.use_once(&[nonce()]).unwrap();
        assert_eq!(states.used.lock().unwrap().len(), MAX_USED);
    }

    #[test]
    fn calls_in_memory_are_made_once() {
        let states = states("a", 1);
        let [one, two, three] = [0, 1, 2].map(|call| call_nonce("execution", call));
        states.use_once(&[one, two]).unwrap();
        assert!(states.use_once(&[three, two]).is_err());
        states.use_once(&[three, call_nonce("other", 1)]).unwrap();
        states.use_once(&[]).unwrap();
    }

    #[test]
    fn call_digest_depends_on_the_call_and_all_its_parts() {
        let digest = |id, name, arguments| call_digest(&call(id, name, arguments));
        assert_eq!(digest(1, "pay", "{}"), digest(1, "pay", "{}"));
        for other in [digest(2, "pay", "{}"), digest(1, "pa", "y{}"), digest(1, "pay", r#"{"euros":1}"#)] {
            assert_ne!(digest(1, "pay", "{}"), other);
        }
    }

    #[test]
    fn digest_depends_on_all_arguments() {
        let digest = |value: serde_json::Value| digest(value.as_object().unwrap());
        assert_eq!(digest(json!({ "a": 1, "b": [2] })), digest(json!({ "a": 1, "b": [2] })));
        assert_ne!(digest(json!({ "a": 1, "b": [2] })), digest(json!({ "a": 1, "b": [3] })));
        // The text is longer than the buffer.
        let long = json!({ "text": "é\"".repeat(DIGEST_BUFFER_BYTES), "b": null });
        let expected: ArgumentsDigest = Sha256::digest(long.to_string()).into();
        assert_eq!(digest(long), expected);
    }
}
