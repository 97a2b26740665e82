//! Safe retries with the `Idempotency-Key` header.
//!
//! A client that received no response retries its request with the same key, and receives the response to the first
//! request. The first request is completed even if its connection is lost. Keys belong to a token. They are stored in
//! memory for up to ten minutes and do not survive a restart. Stored responses have a separate memory budget, so they
//! do not occupy the memory for requests. Only newer responses of the same token can evict a stored response. A
//! response whose memory was reserved is not evicted before it expires, because it is the only copy of a suspended
//! execution.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
};
use sha2::{Digest, Sha256};

use super::Problem;
use crate::{
    ServiceError,
    byte_budget::{ByteBudget, ChargedBytes},
};

/// Maximum retention time of keys and responses, from the completion of the request.
const HELD_FOR: Duration = Duration::from_secs(600);
/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 255;

#[derive(Clone, Debug)]
pub(crate) struct StoredResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) etag: Option<String>,
}

/// SHA-256 of a request. A retry must have the same hash.
type Request = [u8; 32];

#[derive(Debug)]
enum KeyState {
    Running(Request),
    Done(Request, StoredResponse),
    /// The request was completed, but its response is not stored.
    Forgotten(Request),
}

/// Keys and their stored responses. Clones share the store.
#[derive(Clone, Debug)]
pub(crate) struct IdempotencyStore(Arc<IdempotencyStoreInner>);

#[derive(Debug)]
struct IdempotencyStoreInner {
    /// Keyed by token name.
    entries: Mutex<HashMap<String, Entries>>,
    max_keys: usize,
    /// The memory budget for the stored responses of all tokens. Memory is acquired only while `entries` is locked.
    budget: ByteBudget,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Arc<str>, KeyState>,
    /// The keys of completed requests, oldest first.
    order: VecDeque<CompletedKey>,
}

#[derive(Debug)]
struct CompletedKey {
    key: Arc<str>,
    at: Instant,
    /// The memory charged for the response, if it is stored.
    held: Option<ChargedBytes>,
    /// `true` if the response is stored, and newer keys and responses must not evict it.
    is_only_copy: bool,
}

/// The result of looking up a request's key: the reserved key, if the request has one, or the response to the first
/// request.
pub(crate) type KeyLookup = Result<Option<KeySlot>, StoredResponse>;

/// Returns a request's key if it is new.
pub(super) fn new_key(lookup: &KeyLookup) -> Option<&str> {
    lookup.as_ref().ok()?.as_ref()?.key.as_deref()
}

/// A reserved key. Dropping the slot without calling `done` or `forget` releases the key.
pub(crate) struct KeySlot {
    held: Arc<IdempotencyStoreInner>,
    tenant: String,
    key: Option<Arc<str>>,
    request: Request,
    /// The memory reserved for the response.
    reserved: Option<ChargedBytes>,
}

impl IdempotencyStore {
    pub(crate) fn new(max_keys: usize, budget: ByteBudget) -> Self {
        Self(Arc::new(IdempotencyStoreInner { entries: Mutex::default(), max_keys, budget }))
    }

    /// Looks up the key of a request and reserves it if it is new. The elements of `parts` identify the request. Fails
    /// if the key belongs to a different request, or if the first request is still running or has no stored response.
    /// Also fails if the key is invalid, or if too many requests with keys are running.
    pub(crate) fn begin(&self, tenant: &str, headers: &HeaderMap, parts: &[&[u8]]) -> Result<KeyLookup, Problem> {
        let Some(key) = headers.get("idempotency-key") else { return Ok(Ok(None)) };
        let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
        let Some(key) = key else {
            return Err(Problem::invalid(format!(
                "`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} visible ASCII characters"
            )));
        };
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let request: Request = hasher.finalize().into();
        let mut all = self.0.current(Instant::now());
        let entries = all.entry(tenant.to_owned()).or_default();
        match entries.by_key.get(key) {
            Some(KeyState::Running(before) | KeyState::Done(before, _) | KeyState::Forgotten(before))
                if *before != request =>
            {
                let detail = "this `Idempotency-Key` belongs to another request; use a new key for each request";
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key", detail))
            }
            Some(KeyState::Running(_)) => {
                let detail = "the request with this `Idempotency-Key` is still running; try again later";
                let problem = Problem::new(StatusCode::CONFLICT, "idempotency-key", detail);
                Err(Problem { retry_after: Some(1), ..problem })
            }
            Some(KeyState::Done(_, answer)) => Ok(Err(answer.clone())),
            Some(KeyState::Forgotten(_)) => {
                let detail = "the request with this `Idempotency-Key` was executed, but its response is not \
                              stored; check its effect, and use a new key to repeat it";
                Err(Problem::new(StatusCode::CONFLICT, "idempotency-key", detail))
            }
            None => {
                if entries.by_key.len() >= self.0.max_keys {
                    entries.forget_oldest_copy();
                }
                if entries.by_key.len() >= self.0.max_keys {
                    let detail = "too many requests with an `Idempotency-Key` are running; try again later";
                    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
                    return Err(Problem { retry_after: Some(1), ..problem });
                }
                let key: Arc<str> = key.into();
                entries.by_key.insert(Arc::clone(&key), KeyState::Running(request));
                let (held, tenant) = (Arc::clone(&self.0), tenant.to_owned());
                Ok(Ok(Some(KeySlot { held, tenant, key: Some(key), request, reserved: None })))
            }
        }
    }
}

impl IdempotencyStoreInner {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entries>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`entries`](Self::entries), but first removes the expired keys of all tokens, because their responses
    /// occupy the budget.
    fn current(&self, now: Instant) -> MutexGuard<'_, HashMap<String, Entries>> {
        let mut all = self.entries();
        all.values_mut().for_each(|entries| entries.forget_old(now));
        all
    }
}

impl Entries {
    /// Removes the oldest key of a completed request. Skips keys whose stored response is the only copy of a suspended
    /// execution.
    fn forget_oldest_copy(&mut self) {
        if let Some(at) = self.order.iter().position(|completed| !completed.is_only_copy) {
            self.forget(at);
        }
    }

    /// Removes the key at this position in `order`.
    fn forget(&mut self, at: usize) {
        if let Some(completed) = self.order.remove(at) {
            self.by_key.remove(&completed.key);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|oldest| now.saturating_duration_since(oldest.at) > HELD_FOR) {
            self.forget(0);
        }
    }

    /// Acquires memory for a response of `bytes`. If too little is free, drops the oldest responses of this token but
    /// not their keys, because a retry must not repeat the request. Drops nothing if dropping all of them would not
    /// free enough memory.
    fn room(&mut self, budget: &ByteBudget, tenant: &str, bytes: usize) -> Option<ChargedBytes> {
        let mut free = budget.free_bytes(Some(tenant));
        let mut evicted = Vec::new();
        let mut evictable =
            self.order.iter_mut().filter(|completed| completed.held.is_some() && !completed.is_only_copy);
        while free < bytes {
            let completed = evictable.next()?;
            free += completed.held.as_ref().map_or(0, ChargedBytes::bytes);
            evicted.push(completed);
        }
        for completed in evicted {
            completed.held = None;
            if let Some(entry) = self.by_key.get_mut(&completed.key)
                && let KeyState::Done(request, _) = entry
            {
                *entry = KeyState::Forgotten(*request);
            }
        }
        budget.try_room(Some(tenant), bytes).ok()
    }
}

impl KeySlot {
    /// Reserves memory for a response of at most `bytes` before the request is executed. [`done`](Self::done) then
    /// stores the response, and newer responses do not evict it.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), ServiceError> {
        let bytes = bytes.saturating_add(self.key.as_ref().map_or(0, |key| key.len()));
        let (budget, tenant) = (&self.held.budget, &*self.tenant);
        let max = budget.max_bytes(Some(tenant));
        if bytes > max {
            return Err(ServiceError::AnswerTooLarge { bytes, max });
        }
        let mut all = self.held.current(Instant::now());
        let room = all.entry(tenant.to_owned()).or_default().room(budget, tenant, bytes);
        drop(all);
        self.reserved = Some(room.ok_or(ServiceError::NoRoomToSuspend)?);
        Ok(())
    }

    /// Stores the response. If no memory was reserved and the budget has no room, records only that the request was
    /// completed.
    pub(crate) fn done(self, answer: StoredResponse) {
        self.keep(Some(answer));
    }

    /// Records that the request was completed, but stores no response.
    pub(crate) fn forget(self) {
        self.keep(None);
    }

    fn keep(mut self, answer: Option<StoredResponse>) {
        let Some(key) = self.key.take() else { return };
        let (now, reserved) = (Instant::now(), self.reserved.take());
        let mut all = self.held.current(now);
        let entries = all.entry(self.tenant.clone()).or_default();
        let is_only_copy = reserved.is_some();
        let stored = answer.and_then(|answer| {
            let bytes = answer.body.len() + answer.etag.as_ref().map_or(0, String::len) + key.len();
            let held = match reserved {
                Some(mut held) => {
                    held.shrink(bytes);
                    held
                }
                None => entries.room(&self.held.budget, &self.tenant, bytes)?,
            };
            Some((KeyState::Done(self.request, answer), held))
        });
        let (state, held) = stored.unzip();
        entries.by_key.insert(Arc::clone(&key), state.unwrap_or(KeyState::Forgotten(self.request)));
        entries.order.push_back(CompletedKey { key, at: now, is_only_copy: is_only_copy && held.is_some(), held });
    }
}

impl Drop for KeySlot {
    fn drop(&mut self) {
        if let Some(key) = &self.key
            && let Some(entries) = self.held.entries().get_mut(&self.tenant)
        {
            entries.by_key.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(key: &str) -> HeaderMap {
        HeaderMap::from_iter([("idempotency-key".parse().unwrap(), key.parse().unwrap())])
    }

    fn store(max_keys: usize, kib: usize, tenants: &[&str]) -> IdempotencyStore {
        IdempotencyStore::new(max_keys, ByteBudget::new(kib << 10, Duration::ZERO, tenants.iter().copied()))
    }

    fn answer(bytes: usize) -> StoredResponse {
        StoredResponse { status: StatusCode::OK, body: vec![b'x'; bytes].into(), etag: None }
    }

    fn first(store: &IdempotencyStore, key: &str) -> KeySlot {
        match store.begin("a", &headers(key), &[b"x"]) {
            Ok(Ok(Some(slot))) => slot,
            Ok(_) => panic!("`{key}` already exists"),
            Err(problem) => panic!("{problem:?}"),
        }
    }

    fn status(store: &IdempotencyStore, tenant: &str, key: &str, request: &[u8]) -> u16 {
        match store.begin(tenant, &headers(key), &[request]) {
            Ok(Err(_)) => 200,
            Ok(Ok(Some(_))) => 201,
            Ok(Ok(None)) => 204,
            Err(problem) => problem.status,
        }
    }

    #[test]
    fn request_runs_once_per_key_and_token() {
        let store = store(10, 8, &["a"]);
        let slot = first(&store, "k");
        assert_eq!(status(&store, "a", "k", b"x"), 409, "the first request is still running");
        slot.done(answer(10));
        assert_eq!(status(&store, "a", "k", b"x"), 200);
        assert_eq!(status(&store, "a", "k", b"y"), 422, "same key with another body");
        assert_eq!(status(&store, "b", "k", b"x"), 201, "same key of another token");
        drop(first(&store, "failed"));
        drop(first(&store, "failed"));
    }

    #[test]
    fn oldest_answers_are_evicted_over_the_budget() {
        let store = store(10, 6, &["a"]);
        let status = |key: &str| status(&store, "a", key, b"x");
        // The key is charged as well.
        first(&store, "1").done(answer((2 << 10) - 1));
        first(&store, "2").done(answer((4 << 10) - 1));
        assert_eq!((status("1"), status("2")), (200, 200), "both fit exactly");
        first(&store, "3").done(answer(1));
        assert_eq!((status("1"), status("2"), status("3")), (409, 200, 200), "the oldest answer is evicted");
        first(&store, "4").done(answer(6 << 10));
        assert_eq!(
            (status("2"), status("3"), status("4")),
            (200, 200, 409),
            "an answer one byte over the limit must not evict others"
        );
        first(&store, "5").done(answer((6 << 10) - 1));
        assert_eq!((status("2"), status("3"), status("5")), (409, 409, 200));
    }

    #[test]
    fn response_with_reserved_memory_is_stored_and_not_evicted() {
        let store = store(10, 6, &["a"]);
        let status = |key: &str| status(&store, "a", key, b"x");
        first(&store, "1").done(answer((4 << 10) - 1));
        let mut slot = first(&store, "2");
        assert!(matches!(slot.reserve(6 << 10), Err(ServiceError::AnswerTooLarge { .. })));
        assert_eq!(status("1"), 200, "a reservation that can never fit evicts nothing");
        slot.reserve((3 << 10) - 1).unwrap();
        assert_eq!(status("1"), 409, "the reservation has evicted it");
        slot.done(answer((2 << 10) - 1));
        first(&store, "3").done(answer(4 << 10));
        assert_eq!((status("2"), status("3")), (200, 409), "the rest of the reservation is free: 4 KiB");
        first(&store, "4").done(answer((4 << 10) - 1));
        assert_eq!((status("2"), status("4")), (200, 200));
        let (mut slot, mut other) = (first(&store, "5"), first(&store, "6"));
        slot.reserve((4 << 10) - 1).unwrap();
        assert!(matches!(other.reserve(1), Err(ServiceError::NoRoomToSuspend)));
        drop(slot);
        other.reserve(1).unwrap();
        assert_eq!((status("2"), status("4"), status("5"), status("6")), (200, 409, 201, 409));
        other.done(answer(1));
        drop(store.0.current(Instant::now() + HELD_FOR + Duration::from_secs(1)));
        assert_eq!((status("2"), store.0.budget.free_bytes(Some("a"))), (201, 6 << 10), "expired");
    }

    #[test]
    fn one_token_cannot_evict_the_answers_of_another() {
        let store = store(10, 8, &["a", "b"]);
        let complete = |tenant: &str, key: &str, bytes| match store.begin(tenant, &headers(key), &[b"x"]) {
            Ok(Ok(Some(slot))) => slot.done(answer(bytes)),
            _ => panic!("`{key}` already exists"),
        };
        let status = |tenant: &str, key: &str| status(&store, tenant, key, b"x");
        for (tenant, key) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] {
            complete(tenant, key, (2 << 10) - 1);
        }
        assert_eq!(
            [status("a", "1"), status("a", "2"), status("b", "1"), status("b", "2")],
            [200; 4],
            "both fit exactly"
        );
        complete("b", "3", 1);
        assert_eq!((status("a", "1"), status("b", "1"), status("b", "3")), (200, 409, 200));
        drop(store.0.current(Instant::now() + HELD_FOR + Duration::from_secs(1)));
        assert_eq!((status("a", "1"), status("b", "3")), (201, 201), "expired");
        assert_eq!(store.0.budget.free_bytes(Some("a")), 4 << 10);
    }

    #[test]
    fn oldest_key_is_evicted_unless_all_are_running() {
        let store = store(3, 8, &["a"]);
        for key in ["a", "b", "c"] {
            first(&store, key).done(answer(1));
        }
        drop(first(&store, "d"));
        assert_eq!((status(&store, "a", "a", b"x"), status(&store, "a", "b", b"x")), (201, 200));
        let running: Vec<_> = ["r1", "r2", "r3"].map(|key| first(&store, key)).into();
        assert_eq!(status(&store, "a", "r4", b"x"), 503, "every key is still running");
        drop(running);
        assert_eq!(status(&store, "a", "r4", b"x"), 201);
    }

    #[test]
    fn newer_keys_do_not_evict_the_only_copy() {
        let store = store(2, 8, &["a"]);
        let mut slot = first(&store, "only");
        slot.reserve(10).unwrap();
        slot.done(answer(1));
        for key in ["a", "b", "c"] {
            first(&store, key).done(answer(1));
        }
        let status = |key: &str| status(&store, "a", key, b"x");
        assert_eq!((status("only"), status("c")), (200, 200));
        let mut slot = first(&store, "other");
        slot.reserve(10).unwrap();
        slot.done(answer(1));
        assert_eq!((status("new"), status("only"), status("other")), (503, 200, 200), "no key can be evicted");
        drop(store.0.current(Instant::now() + HELD_FOR + Duration::from_secs(1)));
        assert_eq!((status("only"), store.0.budget.free_bytes(Some("a"))), (201, 8 << 10), "expired");
    }

    #[test]
    fn key_has_1_to_255_characters() {
        let store = store(3, 8, &["a"]);
        assert_eq!(status(&store, "a", &"k".repeat(255), b"x"), 201);
        assert_eq!(status(&store, "a", &"k".repeat(256), b"x"), 400);
        assert_eq!(status(&store, "a", "", b"x"), 400);
    }
}
