//! The kinds of stores, each of which has to pass the same tests.

use std::{fs, path::Path, sync::Arc};

use glovebox::{DirectoryStore, SessionId, SessionStore};
use tempfile::{TempDir, tempdir};

/// Somewhere to keep sessions: empty at first, and nobody else's.
pub(crate) trait Place: Send + Sync {
    /// Opens it, as another process would.
    fn open(&self) -> Arc<dyn SessionStore>;

    /// What [`open_at`] opens it by in another process; `None` if no other process can.
    fn address(&self) -> Option<String>;

    /// Damages what is stored of a session.
    fn damage(&self, id: &SessionId);

    /// Has a lock's holder lose it without knowing, as one that was stopped for too long.
    fn lose_lock(&self, id: &SessionId);
}

/// Opens a place by its [`Place::address`].
pub(crate) fn open_at(address: &str) -> Arc<dyn SessionStore> {
    match address.split_once(' ') {
        Some(("directory", path)) => Arc::new(DirectoryStore::open(path).unwrap()),
        _ => panic!("`{address}` is no address of a store"),
    }
}

/// A [`DirectoryStore`].
pub(crate) struct Directory(TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempdir().unwrap())
    }

    /// One in another directory than that for temporary files.
    pub(crate) fn inside(path: &Path) -> Option<Self> {
        tempfile::tempdir_in(path).ok().map(Self)
    }
}

impl Place for Directory {
    fn open(&self) -> Arc<dyn SessionStore> {
        Arc::new(DirectoryStore::open(self.0.path()).unwrap())
    }

    fn address(&self) -> Option<String> {
        Some(format!("directory {}", self.0.path().display()))
    }

    fn damage(&self, id: &SessionId) {
        fs::write(self.0.path().join(format!("{id}.session")), "damaged").unwrap();
    }

    fn lose_lock(&self, id: &SessionId) {
        fs::remove_file(self.0.path().join(format!(".lock-{id}"))).unwrap();
    }
}

/// Makes a test of each of these functions for each kind of store.
macro_rules! on_each_store {
    ($($test:ident),* $(,)?) => {
        mod directory {
            $(
                #[test]
                fn $test() {
                    super::$test(&$crate::stored::place::Directory::new());
                }
            )*
        }
    };
}
pub(crate) use on_each_store;
