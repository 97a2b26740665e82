//! An in-memory store whose requests wait for their turn and fail on demand. Tests explore every order of turns and
//! failures.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use glovebox_sessions::StoreError;

use crate::{
    ObjectStore,
    bucket::{Bucket, ListedObject, ObjectContents, SharedRuntime, failed},
    lease::StoreClock,
};

/// A sequence of decisions, each between several alternatives. A run repeats the decisions of the previous run up to
/// the last decision with an untried alternative. The run takes that alternative, and then the first alternative of
/// each later decision.
#[derive(Debug, Default)]
pub(super) struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
    /// The state of the random number generator. `None` if the decisions are enumerated.
    random: Option<u64>,
}

impl Choices {
    pub(super) fn at_random(seed: u64) -> Self {
        Self { random: Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), ..Self::default() }
    }

    fn choose(&mut self, alternatives: usize) -> usize {
        if alternatives == 1 {
            return 0;
        }
        if let Some(random) = &mut self.random {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            return usize::try_from(*random >> 33).unwrap() % alternatives;
        }
        if self.next == self.made.len() {
            self.made.push((0, alternatives));
        }
        let (chosen, of) = self.made[self.next];
        assert_eq!(of, alternatives, "a repeated run has the same alternatives");
        self.next += 1;
        chosen
    }

    /// Advances to the next run. Returns `false` after the last run.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// The outcome of a request to a faulty store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestOutcome {
    Works,
    /// The request has no effect.
    Fails,
    /// The request is executed, but its response is lost.
    LosesAnswer,
    /// The client crashes before the request is executed.
    Crashes,
    /// The client crashes after the request is executed.
    CrashesAfter,
}

const FAULTS: [RequestOutcome; 5] = [
    RequestOutcome::Works,
    RequestOutcome::Fails,
    RequestOutcome::LosesAnswer,
    RequestOutcome::Crashes,
    RequestOutcome::CrashesAfter,
];

#[derive(Clone, Debug)]
pub(super) struct Object {
    bytes: Bytes,
    modified_ms: i64,
}

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) objects: Mutex<BTreeMap<String, Object>>,
    /// The deleted names, and whether a lease existed at the time of each deletion.
    pub(super) deleted: Mutex<Vec<(String, bool)>>,
    /// The store's clock, which does not advance by itself.
    pub(super) now_ms: Mutex<i64>,
    choices: Mutex<Choices>,
    faults: Mutex<usize>,
    crashed: Mutex<bool>,
    is_calm: Mutex<bool>,
}

impl Memory {
    /// Waits for a turn, and then executes the request with the chosen outcome.
    async fn turn<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Object>) -> T) -> Result<T, StoreError> {
        if *self.is_calm.lock().unwrap() {
            return Ok(work(&mut self.objects.lock().unwrap()));
        }
        let mut waited = false;
        poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        let turn = {
            let mut faults = self.faults.lock().unwrap();
            let turn = if *faults == 0 {
                RequestOutcome::Works
            } else {
                FAULTS[self.choices.lock().unwrap().choose(FAULTS.len())]
            };
            *faults -= usize::from(turn != RequestOutcome::Works);
            turn
        };
        let done = match turn {
            RequestOutcome::Fails | RequestOutcome::Crashes => None,
            RequestOutcome::Works | RequestOutcome::LosesAnswer | RequestOutcome::CrashesAfter => {
                Some(work(&mut self.objects.lock().unwrap()))
            }
        };
        match (turn, done) {
            (RequestOutcome::Works, Some(done)) => Ok(done),
            (RequestOutcome::Crashes | RequestOutcome::CrashesAfter, _) => {
                *self.crashed.lock().unwrap() = true;
                std::future::pending().await
            }
            _ => Err(failed(self, "respond", "injected fault")),
        }
    }
}

#[async_trait]
impl Bucket for Memory {
    fn url(&self) -> &str {
        "memory://model"
    }

    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError> {
        let modified_ms = *self.now_ms.lock().unwrap();
        self.turn(|objects| {
            let is_new = !objects.contains_key(name);
            objects.entry(name.to_owned()).or_insert(Object { bytes, modified_ms });
            is_new
        })
        .await
    }

    async fn get(&self, name: &str, max: u64) -> Result<Option<ObjectContents>, StoreError> {
        let found = self.turn(|objects| objects.get(name).map(|object| object.bytes.clone())).await?;
        Ok(found.map(|found| match found.len() as u64 {
            bytes if bytes > max => ObjectContents::TooLong { bytes },
            _ => ObjectContents::Bytes(found),
        }))
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.turn(|objects| {
            let is_leased = objects.keys().any(|name| name.starts_with("leases/"));
            self.deleted.lock().unwrap().push((name.to_owned(), is_leased));
            objects.remove(name);
        })
        .await
    }

    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<ListedObject>, StoreError> {
        self.turn(|objects| {
            let inside = |name: &str| name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
            let found =
                objects.iter().filter(|(name, _)| inside(name) && after.is_none_or(|after| name.as_str() > after));
            let listed = |(name, object): (&String, &Object)| ListedObject {
                name: name.clone(),
                bytes: object.bytes.len() as u64,
                modified_ms: object.modified_ms,
            };
            found.take(limit).map(listed).collect()
        })
        .await
    }
}

/// A run: the in-memory store, and the session store that uses it.
pub(super) struct Run {
    pub(super) memory: Arc<Memory>,
    pub(super) store: ObjectStore,
}

/// A client of the store.
pub(super) type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Run {
    fn new(choices: Choices, faults: usize) -> Self {
        let memory = Arc::new(Memory {
            objects: Mutex::default(),
            deleted: Mutex::default(),
            now_ms: Mutex::default(),
            choices: Mutex::new(choices),
            faults: Mutex::new(faults),
            crashed: Mutex::new(false),
            is_calm: Mutex::new(true),
        });
        let clock = StoreClock { seen_ms: 0, seen_at: Instant::now() };
        let store = ObjectStore {
            bucket: Arc::clone(&memory) as _,
            background: SharedRuntime::get().unwrap(),
            clock,
            lease: Duration::from_secs(1),
        };
        Self { memory, store }
    }

    /// Interleaves the tasks in the chosen order until all tasks have ended or crashed. A task runs until a switch to
    /// another task. At most `switches` switches interrupt a task that has not ended. A few switches are enough to
    /// expose a fault.
    pub(super) fn interleave(&self, mut switches: usize, mut tasks: Vec<Task<'_>>) {
        *self.memory.is_calm.lock().unwrap() = false;
        let mut context = Context::from_waker(Waker::noop());
        // Run each task up to its first request. The order does not matter yet.
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        let mut current = None;
        while !tasks.is_empty() {
            let chosen = match current {
                Some(current) if switches == 0 => current,
                _ => self.memory.choices.lock().unwrap().choose(tasks.len()),
            };
            switches -= usize::from(current.is_some_and(|current| current != chosen));
            current = Some(chosen);
            let ended = tasks[chosen].as_mut().poll(&mut context).is_ready();
            if ended || std::mem::take(&mut *self.memory.crashed.lock().unwrap()) {
                drop(tasks.remove(chosen));
                current = None;
            }
        }
        *self.memory.is_calm.lock().unwrap() = true;
    }
}

/// Runs `check` with every order of turns and every choice of up to `faults` faults. Returns the number of runs.
pub(super) fn exhaustively(faults: usize, check: impl Fn(&Run)) -> usize {
    let (mut choices, mut runs) = (Choices::default(), 0);
    loop {
        let run = Run::new(choices, faults);
        check(&run);
        runs += 1;
        choices = std::mem::take(&mut *run.memory.choices.lock().unwrap());
        if !choices.advance() {
            return runs;
        }
    }
}

/// Runs `check` with random orders and faults.
pub(super) fn at_random(runs: u64, faults: usize, check: impl Fn(&Run, u64)) {
    for seed in 1..=runs {
        check(&Run::new(Choices::at_random(seed), faults), seed);
    }
}
