//! Tests stores that fail, sessions that cannot be saved, and the operations that read the store.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Instant,
};

use async_trait::async_trait;
use glovebox::IfExists;
use glovebox_sessions::{
    DirectoryStore, ExpectedVersion, NewSession, PageRequest, Save, SessionId, SessionLock, SessionRecord,
    SessionStore, SessionsError, StoreError, StoredPage, StoredRecord, StoredSession, StoredVersion, block_on,
};
use tempfile::tempdir;

use super::support::{COUNT, id, is_live, open_over, python, run};

/// A store that fails on demand.
#[derive(Debug)]
struct FailingStore {
    store: DirectoryStore,
    fails: AtomicBool,
    /// The only session whose writes fail; `None` means all sessions.
    only: Option<SessionId>,
    /// The remaining number of times that another process appears to hold a session's lock briefly.
    moments: AtomicU32,
    /// The number of session reads.
    reads: AtomicU32,
    /// Reading a record waits until this mutex is free.
    gate: Mutex<()>,
}

impl FailingStore {
    fn open(path: &Path) -> Self {
        Self {
            store: DirectoryStore::open(path).unwrap(),
            fails: AtomicBool::new(false),
            only: None,
            moments: AtomicU32::new(0),
            reads: AtomicU32::new(0),
            gate: Mutex::default(),
        }
    }

    /// Reads a record directly from the directory, without counting the read.
    fn store_record(&self, id: &SessionId) -> Option<SessionRecord> {
        block_on(self.store.record(id)).unwrap().map(|stored| stored.record)
    }
}

#[async_trait]
impl SessionStore for FailingStore {
    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        if self.fails.load(Ordering::SeqCst) && self.only.as_ref().is_none_or(|only| only == lock.id()) {
            return Err(StoreError::Other("the disk is full".into()));
        }
        self.store.put(lock, expected, record, state).await
    }

    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        if self.moments.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Ok(None);
        }
        self.store.try_lock(id).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.get(id).await
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().unwrap());
        self.store.record(id).await
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        self.store.list(page).await
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Other("the disk is read-only".into()));
        }
        self.store.remove(lock, expected).await
    }
}

#[test]
fn live_session_is_used_without_reading_the_store() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore::open(dir.path()));
    let sessions = open_over(store.clone(), |_| {});
    python(&sessions, "a");
    let stored = || store.store_record(&id("a"));
    for executions in 1..=3 {
        store.reads.store(0, Ordering::SeqCst);
        run(&sessions.open(&id("a")).unwrap(), COUNT);
        let record = sessions.record(&id("a")).unwrap().unwrap();
        assert_eq!(store.reads.load(Ordering::SeqCst), 0);
        assert_eq!((record.executions, Some(record)), (executions, stored()));
    }
    // A hibernated session's record is read from the store; a deleted session has no record.
    sessions.hibernate(&id("a")).unwrap();
    assert_eq!(sessions.record(&id("a")).unwrap(), stored());
    assert_eq!(store.reads.load(Ordering::SeqCst), 1);
    run(&python(&sessions, "a"), COUNT);
    assert!(sessions.delete(&id("a")).unwrap());
    assert_eq!(sessions.record(&id("a")).unwrap(), None);
}

#[test]
fn slow_store_does_not_lock_a_session() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore::open(dir.path()));
    let sessions = open_over(store.clone(), |_| {});
    let gate = store.gate.lock().unwrap();
    thread::scope(|scope| {
        let creating = scope.spawn(|| sessions.create(id("a"), NewSession::default()).unwrap());
        while store.reads.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        // The store blocks the creation in the first thread. Operations of other threads must fail instead of waiting
        // for it.
        let busy = sessions.hibernate(&id("a"));
        drop(gate);
        assert!(matches!(busy, Err(SessionsError::InUse { .. })), "{busy:?}");
        creating.join().unwrap();
    });
    assert!(is_live(&sessions, "a"));
}

#[test]
fn briefly_locked_session_is_replaced_and_deleted() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore::open(dir.path()));
    let sessions = open_over(store.clone(), |_| {});
    run(&python(&sessions, "a"), COUNT);
    let exported = sessions.export(&id("a")).unwrap();
    let look = |moments| {
        sessions.hibernate(&id("a")).unwrap();
        store.moments.store(moments, Ordering::SeqCst);
    };
    look(1);
    sessions.import(id("a"), &exported, IfExists::Replace).unwrap();
    look(1);
    assert_eq!(run(&python(&sessions, "a"), COUNT), "2");
    look(1_000_000);
    assert!(matches!(sessions.delete(&id("a")), Err(SessionsError::InUse { .. })));
    look(1);
    assert!(sessions.delete(&id("a")).unwrap());
}

#[test]
fn unsaved_session_is_kept_in_memory() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore::open(dir.path()));
    let sessions = open_over(store.clone(), |policy| (policy.idle_ms, policy.live_count) = (0, 1));
    let session = python(&sessions, "a");
    run(&session, COUNT);
    store.fails.store(true, Ordering::SeqCst);
    match session.execute(COUNT).unwrap_err() {
        SessionsError::Unsaved { id: unsaved, execution, .. } => {
            assert_eq!((unsaved, execution.stdout.text().trim_end()), (id("a"), "2"));
        }
        error => panic!("{error}"),
    }
    assert!(sessions.hibernate(&id("a")).is_err());
    let report = sessions.hibernate_idle(Instant::now());
    assert_eq!((report.hibernated.len(), report.errors.len()), (0, 1));
    // The session is not evicted to make room for another one either.
    assert!(sessions.create(id("b"), NewSession::default()).is_err());
    assert!(is_live(&sessions, "a"));
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(sessions.hibernate_all().hibernated, [id("a")]);
    assert_eq!(run(&session, COUNT), "3");
}

#[test]
fn unsaved_session_does_not_block_others() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore { only: Some(id("a")), ..FailingStore::open(dir.path()) });
    let sessions = open_over(store.clone(), |policy| (policy.save, policy.live_count) = (Save::OnHibernate, 2));
    let (oldest, other) = (python(&sessions, "a"), python(&sessions, "b"));
    run(&oldest, COUNT);
    run(&other, COUNT);
    store.fails.store(true, Ordering::SeqCst);
    run(&python(&sessions, "c"), COUNT);
    assert!(is_live(&sessions, "a") && !is_live(&sessions, "b") && is_live(&sessions, "c"));
    // If no other session can be evicted, the error contains the reason.
    let in_use = sessions.open(&id("c")).unwrap().activate().unwrap();
    let error = other.execute(COUNT).unwrap_err();
    assert!(matches!(error, SessionsError::Store(StoreError::Other(_))), "{error}");
    drop(in_use);
    assert_eq!(run(&other, COUNT), "2");
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(run(&oldest, COUNT), "2");
}

#[test]
fn session_survives_a_failed_replace_or_remove() {
    let dir = tempdir().unwrap();
    let store = Arc::new(FailingStore::open(dir.path()));
    let sessions = open_over(store.clone(), |policy| policy.save = Save::OnHibernate);
    let session = python(&sessions, "a");
    let exported = sessions.export(&id("a")).unwrap();
    run(&session, COUNT);
    store.fails.store(true, Ordering::SeqCst);
    sessions.import(id("a"), &exported, IfExists::Replace).unwrap_err();
    sessions.delete(&id("a")).unwrap_err();
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(run(&session, COUNT), "2", "unsaved changes are retained");
    sessions.import(id("a"), &exported, IfExists::Replace).unwrap();
    assert_eq!(run(&session, COUNT), "1");
    assert!(sessions.delete(&id("a")).unwrap());
}
