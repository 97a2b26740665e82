//! The opaque `requestState` of a call that waits for approvals. The client returns it unchanged with its answers.
//!
//! A state is sealed and bound to the arguments of the call, because it determines which calls an answer approves. It
//! is not encrypted.

use std::{
    collections::VecDeque,
    sync::{Mutex, OnceLock, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use glovebox::SessionKey;
use glovebox_core::hibernate::{SEAL_BYTES, Seal};
use rmcp::model::JsonObject;
use sha2::{Digest as _, Sha256};

use crate::ServiceError;

/// Maximum size of the suspended execution in a state, in bytes. Its base64 text then has 8 MiB, which fits into the
/// default limits of clients on the length of a message.
pub(super) const MAX_SUSPENDED_BYTES: usize = 6 << 20;

/// The size of a nonce in bytes.
const NONCE_BYTES: usize = 16;

/// Maximum length of a state in characters.
const MAX_STATE_CHARS: usize = (1 + NONCE_BYTES + SEAL_BYTES + MAX_SUSPENDED_BYTES).div_ceil(3) * 4;

/// Maximum number of used states that a server remembers.
const MAX_USED: usize = 10_000;

/// A random number that makes each state unique.
type Nonce = [u8; NONCE_BYTES];

/// A digest of a call's arguments.
pub(in crate::mcp) type ArgumentsDigest = [u8; 32];

/// Returns a digest of a call's arguments.
pub(in crate::mcp) fn digest(arguments: &JsonObject) -> ArgumentsDigest {
    Sha256::digest(serde_json::to_vec(arguments).unwrap_or_default()).into()
}

/// A run of `run_code` that waits for approvals.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaitingRun {
    /// The bytes of a suspended execution. Every server with the same key can resume it.
    Suspended(Vec<u8>),
    /// The ID of an execution in this server's memory. Executions in sessions are not suspended as bytes.
    InMemory(String),
}

impl WaitingRun {
    fn kind(&self) -> u8 {
        match self {
            Self::Suspended(_) => 1,
            Self::InMemory(_) => 2,
        }
    }

    fn payload(&self) -> &[u8] {
        match self {
            Self::Suspended(bytes) => bytes,
            Self::InMemory(execution) => execution.as_bytes(),
        }
    }
}

/// A state that a client returned, after its seal was verified.
#[derive(Debug)]
pub(super) struct OpenedState {
    pub(super) run: WaitingRun,
    nonce: Nonce,
}

/// Seals and opens the states of one tenant.
#[derive(Debug)]
pub(in crate::mcp) struct RequestStates {
    /// `None` if the tenant has no key. Then a random key is used, and only this server can open its states.
    key: Option<SessionKey>,
    random_key: OnceLock<SessionKey>,
    bound_to: String,
    /// The nonces of the most recent states whose calls were approved.
    used: Mutex<VecDeque<Nonce>>,
}

impl RequestStates {
    pub(in crate::mcp) fn new(tenant: &str, key: Option<SessionKey>) -> Self {
        // Contains spaces, so it is not the ID of a session, whose seals use the same key.
        let bound_to = format!("MCP request states of {tenant}");
        Self { key, random_key: OnceLock::new(), bound_to, used: Mutex::default() }
    }

    fn key(&self) -> Result<&SessionKey, ServiceError> {
        if let Some(key) = self.key.as_ref().or_else(|| self.random_key.get()) {
            return Ok(key);
        }
        let random: [u8; SessionKey::BYTES_LEAST] = random()?;
        let key = SessionKey::new(&random).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        Ok(self.random_key.get_or_init(|| key))
    }

    fn seal(&self, run: &WaitingRun, nonce: &Nonce, arguments: &ArgumentsDigest) -> Result<Seal, ServiceError> {
        let mut seal = Seal::new(Some(self.key()?), &self.bound_to);
        seal.update(arguments);
        seal.update(&[run.kind()]);
        seal.update(nonce);
        seal.update(run.payload());
        Ok(seal)
    }

    /// Returns the state for a call with these arguments.
    pub(super) fn close(&self, run: &WaitingRun, arguments: &ArgumentsDigest) -> Result<String, ServiceError> {
        let nonce: Nonce = random()?;
        let mut bytes = vec![run.kind()];
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&self.seal(run, &nonce, arguments)?.finish());
        bytes.extend_from_slice(run.payload());
        Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Verifies a state that a client returned with these arguments.
    pub(super) fn open(&self, state: &str, arguments: &ArgumentsDigest) -> Result<OpenedState, ServiceError> {
        if state.len() > MAX_STATE_CHARS {
            return Err(invalid());
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).map_err(|_| invalid())?;
        let (kind, rest) = bytes.split_first().ok_or_else(invalid)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(invalid)?;
        let (seal, payload) = rest.split_first_chunk::<SEAL_BYTES>().ok_or_else(invalid)?;
        let run = match kind {
            1 => WaitingRun::Suspended(payload.to_vec()),
            2 => WaitingRun::InMemory(String::from_utf8(payload.to_vec()).map_err(|_| invalid())?),
            _ => return Err(invalid()),
        };
        match self.seal(&run, nonce, arguments)?.verify(seal) {
            true => Ok(OpenedState { run, nonce: *nonce }),
            false => Err(invalid()),
        }
    }

    /// Records that calls of a state are about to be made.
    ///
    /// # Errors
    /// Fails if this server has already made calls of the state. Otherwise, a client that repeats its request would
    /// repeat the effects of the calls.
    pub(super) fn use_once(&self, state: &OpenedState) -> Result<(), ServiceError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains(&state.nonce) {
            return Err(ServiceError::Invalid(
                "the calls of this `requestState` were already approved, and are not made again; call `run_code` \
                 without it to run the script from the start"
                    .to_owned(),
            ));
        }
        if used.len() >= MAX_USED {
            used.pop_front();
        }
        used.push_back(state.nonce);
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

fn random<const N: usize>() -> Result<[u8; N], ServiceError> {
    let mut random = [0; N];
    getrandom::fill(&mut random)
        .map_err(|error| ServiceError::Invalid(format!("cannot get random numbers: {error}")))?;
    Ok(random)
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
        WaitingRun::Suspended(vec![1; length])
    }

    #[test]
    fn state_is_opened_with_the_same_key_tenant_and_arguments_only() {
        let in_memory = || WaitingRun::InMemory("execution".to_owned());
        for made in [run(0), run(1_000), in_memory()] {
            let state = states("a", 1).close(&made, &ARGUMENTS).unwrap();
            assert_eq!(states("a", 1).open(&state, &ARGUMENTS).unwrap().run, made);
            assert!(states("a", 2).open(&state, &ARGUMENTS).is_err(), "another key");
            assert!(states("b", 1).open(&state, &ARGUMENTS).is_err(), "another tenant");
            assert!(states("a", 1).open(&state, &[8; 32]).is_err(), "other arguments");
        }
        let (one, other) = (RequestStates::new("a", None), RequestStates::new("a", None));
        let state = one.close(&in_memory(), &ARGUMENTS).unwrap();
        assert!(one.open(&state, &ARGUMENTS).is_ok());
        assert!(other.open(&state, &ARGUMENTS).is_err(), "another server without a key");
    }

    #[test]
    fn changed_state_is_rejected() {
        let states = states("a", 1);
        let state = states.close(&run(10), &ARGUMENTS).unwrap();
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(&state).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(states.open(&BASE64_URL_SAFE_NO_PAD.encode(&changed), &ARGUMENTS).is_err(), "byte {at}");
            assert!(states.open(&BASE64_URL_SAFE_NO_PAD.encode(&bytes[..at]), &ARGUMENTS).is_err(), "{at} bytes");
        }
        for text in ["", "%", "é", "AAAA"] {
            assert!(states.open(text, &ARGUMENTS).is_err(), "{text}");
        }
    }

    #[test]
    fn state_at_the_limit_is_opened_and_over_it_rejected() {
        let states = states("a", 1);
        for (bytes, is_refused) in
            [(MAX_SUSPENDED_BYTES - 1, false), (MAX_SUSPENDED_BYTES, false), (MAX_SUSPENDED_BYTES + 3, true)]
        {
            let state = states.close(&run(bytes), &ARGUMENTS).unwrap();
            assert_eq!(states.open(&state, &ARGUMENTS).is_err(), is_refused, "{bytes}");
        }
    }

    #[test]
    fn calls_of_a_state_are_made_once() {
        let states = states("a", 1);
        let opened = || states.open(&states.close(&run(1), &ARGUMENTS).unwrap(), &ARGUMENTS).unwrap();
        let first = opened();
        states.use_once(&first).unwrap();
        for _ in 1..MAX_USED {
            states.use_once(&opened()).unwrap();
        }
        assert!(states.use_once(&first).unwrap_err().to_string().contains("already approved"));
        assert_eq!(states.used.lock().unwrap().len(), MAX_USED);
        states.use_once(&opened()).unwrap();
        assert_eq!(states.used.lock().unwrap().len(), MAX_USED);
    }

    #[test]
    fn digest_depends_on_all_arguments() {
        let digest = |value: serde_json::Value| digest(value.as_object().unwrap());
        assert_eq!(digest(json!({ "a": 1, "b": [2] })), digest(json!({ "a": 1, "b": [2] })));
        assert_ne!(digest(json!({ "a": 1, "b": [2] })), digest(json!({ "a": 1, "b": [3] })));
    }
}
