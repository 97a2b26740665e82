//! Code shared by the tests of stored sessions.

use std::{path::Path, sync::Arc};

use glovebox::Language;
use glovebox_sessions::{DirectoryStore, NewSession, SessionGuard, SessionId, SessionStore, Sessions, StorePolicy};
use glovebox_tests::sandbox;

use super::test_store::TestStore;

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub(crate) fn policy(edit: impl FnOnce(&mut StorePolicy)) -> StorePolicy {
    let mut policy = StorePolicy::default();
    edit(&mut policy);
    policy
}

pub(crate) fn open(path: &Path, edit: impl FnOnce(&mut StorePolicy)) -> Sessions {
    open_over(Arc::new(DirectoryStore::open(path).unwrap()), edit)
}

pub(crate) fn open_in(place: &dyn TestStore, edit: impl FnOnce(&mut StorePolicy)) -> Sessions {
    open_over(place.open(), edit)
}

pub(crate) fn open_over(store: Arc<dyn SessionStore>, edit: impl FnOnce(&mut StorePolicy)) -> Sessions {
    Sessions::builder(store)
        .sandbox(sandbox(Language::Python, |_| {}))
        .sandbox(sandbox(Language::JavaScript, |_| {}))
        .policy(policy(edit))
        .build()
}

pub(crate) fn python(sessions: &Sessions, name: &str) -> SessionGuard {
    sessions.open_or_create(id(name), NewSession::default()).unwrap()
}

pub(crate) fn javascript(sessions: &Sessions, name: &str) -> SessionGuard {
    sessions.open_or_create(id(name), NewSession::default().language(Language::JavaScript)).unwrap()
}

pub(crate) fn run(session: &SessionGuard, source: &str) -> String {
    let execution = session.execute(source).unwrap();
    assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text().trim_end().to_owned()
}

// Scripts that increment a counter and print it.
pub(crate) const COUNT: &str = "n = globals().get('n', 0) + 1; print(n)";
pub(crate) const COUNT_JS: &str = "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n)";

pub(crate) fn is_live(sessions: &Sessions, name: &str) -> bool {
    sessions.list_all().unwrap().into_iter().any(|entry| entry.stored.id == id(name) && entry.live.is_some())
}
