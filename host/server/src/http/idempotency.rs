//! Safe retries: the header `Idempotency-Key`.
//!
//! A client without a response repeats its request with the same key, and gets the response of the first request. The
//! work for the first request continues even if its connection is gone. Keys belong to a token. They are held in memory
//! for ten minutes and do not survive a restart.

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

/// Retention time of a response.
const HELD_FOR: Duration = Duration::from_secs(600);
/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 255;

/// A response that can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    pub(crate) etag: Option<String>,
}

/// SHA-256 of a request, which identifies a retry.
type Request = [u8; 32];

#[derive(Debug)]
enum Entry {
    Running(Request),
    Done(Request, Answer),
    /// The request was carried out, but its response is not stored.
    Forgotten(Request),
}

/// Requests with a key, and their responses. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Answered(Arc<Answers>);

#[derive(Debug)]
struct Answers {
    /// By the token's name, so that the responses of one token take no room from another's.
    entries: Mutex<HashMap<String, Entries>>,
    max_keys: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// Keys of completed requests, oldest first.
    order: VecDeque<(Instant, String)>,
    bytes: usize,
}

/// The state of a request's key.
pub(crate) enum Begun {
    /// The request has no key.
    Unkeyed,
    /// The key is new.
    First(KeySlot),
    /// The request is a retry, and this is the response to the first request.
    Again(Answer),
}

impl Begun {
    /// Returns the key if it is new.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::First(slot) => slot.key.as_deref(),
            Self::Unkeyed | Self::Again(_) => None,
        }
    }
}

/// A reserved key. Dropping the slot without a response frees the key.
pub(crate) struct KeySlot {
    held: Arc<Answers>,
    tenant: String,
    key: Option<String>,
    request: Request,
}

impl Answered {
    pub(crate) fn new(max_keys: usize, max_bytes: usize) -> Self {
        Self(Arc::new(Answers { entries: Mutex::default(), max_keys, max_bytes }))
    }

    /// Looks up the key of a request, and reserves it if it is new. The parts of `asked` identify the request. Fails if
    /// the key belongs to a different request, or if its request is still running or has no stored response.
    pub(crate) fn begin(&self, tenant: &str, headers: &HeaderMap, asked: &[&[u8]]) -> Result<Begun, Problem> {
        let Some(key) = headers.get("idempotency-key") else { return Ok(Begun::Unkeyed) };
        let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
        let Some(key) = key else {
            return Err(Problem::invalid(format!(
                "`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} visible ASCII characters"
            )));
        };
        let mut hasher = Sha256::new();
        for part in asked {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let request: Request = hasher.finalize().into();
        let mut all = self.0.entries();
        let entries = all.entry(tenant.to_owned()).or_default();
        entries.forget_old(Instant::now());
        match entries.by_key.get(key) {
            Some(Entry::Running(before) | Entry::Done(before, _) | Entry::Forgotten(before)) if *before != request => {
                let detail = "this `Idempotency-Key` belongs to another request; use a new key for each request";
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key", detail))
            }
            Some(Entry::Running(_)) => {
                let detail = "the request with this `Idempotency-Key` is still running; try again later";
                let problem = Problem::new(StatusCode::CONFLICT, "idempotency-key", detail);
                Err(Problem { retry_after: Some(1), ..problem })
            }
            Some(Entry::Done(_, answer)) => Ok(Begun::Again(answer.clone())),
            Some(Entry::Forgotten(_)) => {
                let detail = "the request with this `Idempotency-Key` was executed; its response was not stored";
                Err(Problem::new(StatusCode::CONFLICT, "idempotency-key", detail))
            }
            None => {
                if entries.by_key.len() >= self.0.max_keys {
                    entries.forget_oldest();
                }
                if entries.by_key.len() >= self.0.max_keys {
                    let detail = "too many requests with an `Idempotency-Key` are running; try again later";
                    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
                    return Err(Problem { retry_after: Some(1), ..problem });
                }
                entries.by_key.insert(key.to_owned(), Entry::Running(request));
                Ok(Begun::First(KeySlot {
                    held: Arc::clone(&self.0),
                    tenant: tenant.to_owned(),
                    key: Some(key.to_owned()),
                    request,
                }))
            }
        }
    }
}

impl Answers {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entries>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front()
            && let Some(Entry::Done(_, answer)) = self.by_key.remove(&key)
        {
            self.bytes = self.bytes.saturating_sub(answer.body.len());
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > HELD_FOR) {
            self.forget_oldest();
        }
    }
}

impl KeySlot {
    /// Stores the response. If it is too large, stores only that the request was carried out.
    pub(crate) fn done(self, answer: Answer) {
        let fits = answer.body.len() <= self.held.max_bytes;
        let entry = if fits { Entry::Done(self.request, answer) } else { Entry::Forgotten(self.request) };
        self.keep(entry);
    }

    /// Records that the request was carried out, without a response.
    pub(crate) fn forget(self) {
        let entry = Entry::Forgotten(self.request);
        self.keep(entry);
    }

    fn keep(mut self, entry: Entry) {
        let Some(key) = self.key.take() else { return };
        let held = Arc::clone(&self.held);
        let mut all = held.entries();
        let entries = all.entry(self.tenant.clone()).or_default();
        if let Entry::Done(_, answer) = &entry {
            let bytes = answer.body.len();
            while entries.bytes.saturating_add(bytes) > held.max_bytes && !entries.order.is_empty() {
                entries.forget_oldest();
            }
            entries.bytes += bytes;
        }
        entries.by_key.insert(key.clone(), entry);
        entries.order.push_back((Instant::now(), key));
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

    fn answer(bytes: usize) -> Answer {
        Answer { body: vec![b'x'; bytes].into(), etag: None }
    }

    fn first(answered: &Answered, key: &str) -> KeySlot {
        match answered.begin("a", &headers(key), &[b"x"]) {
            Ok(Begun::First(slot)) => slot,
            Ok(_) => panic!("`{key}` is known"),
            Err(problem) => panic!("{problem:?}"),
        }
    }

    fn status(answered: &Answered, tenant: &str, key: &str, asked: &[u8]) -> u16 {
        match answered.begin(tenant, &headers(key), &[asked]) {
            Ok(Begun::Again(_)) => 200,
            Ok(Begun::First(_)) => 201,
            Ok(Begun::Unkeyed) => 204,
            Err(problem) => problem.status,
        }
    }

    #[test]
    fn a_request_is_carried_out_once_for_a_key_of_a_token() {
        let answered = Answered::new(10, 100);
        let slot = first(&answered, "k");
        assert_eq!(status(&answered, "a", "k", b"x"), 409, "it runs");
        slot.done(answer(10));
        assert_eq!(status(&answered, "a", "k", b"x"), 200);
        assert_eq!(status(&answered, "a", "k", b"y"), 422, "another request");
        assert_eq!(status(&answered, "b", "k", b"x"), 201, "another token's");
        drop(first(&answered, "failed"));
        drop(first(&answered, "failed"));
    }

    #[test]
    fn keys_answers_and_their_bytes_are_bounded_and_the_oldest_go_first() {
        let answered = Answered::new(3, 100);
        first(&answered, "a").done(answer(60));
        first(&answered, "b").done(answer(40));
        assert_eq!((status(&answered, "a", "a", b"x"), status(&answered, "a", "b", b"x")), (200, 200), "just full");
        first(&answered, "c").done(answer(1));
        assert_eq!((status(&answered, "a", "a", b"x"), status(&answered, "a", "b", b"x")), (201, 200), "one byte over");
        // A response that is too large to store does not let the request run twice.
        first(&answered, "large").done(answer(101));
        assert_eq!(status(&answered, "a", "large", b"x"), 409);
        let running: Vec<_> = ["r1", "r2", "r3"].map(|key| first(&answered, key)).into();
        assert_eq!(status(&answered, "a", "r4", b"x"), 503, "all of them run");
        drop(running);
        assert_eq!(status(&answered, "a", "r4", b"x"), 201);
    }

    #[test]
    fn a_key_is_short_and_visible() {
        let answered = Answered::new(3, 100);
        assert_eq!(status(&answered, "a", &"k".repeat(255), b"x"), 201);
        assert_eq!(status(&answered, "a", &"k".repeat(256), b"x"), 400);
        assert_eq!(status(&answered, "a", "", b"x"), 400);
    }
}
