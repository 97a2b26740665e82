//! The kinds of stores, all of which must pass the contract tests.

use std::{fs, path::Path, sync::Arc, time::Duration};

use glovebox_object_stores::{BlobStore, ObjectStore};
use glovebox_sessions::{DirectoryStore, SessionId, SessionStore, block_on};
use tempfile::{TempDir, tempdir};

/// A storage location for a single test, initially empty.
pub(crate) trait TestStore: Send + Sync {
    /// Opens the store as another process would.
    fn open(&self) -> Arc<dyn SessionStore>;

    /// Returns the address with which [`open_at`] opens the store in another process, or `None` if other processes
    /// cannot open it.
    fn address(&self) -> Option<String>;

    /// Corrupts a session's stored data.
    fn damage(&self, id: &SessionId);

    /// Takes a lock away from its holder without notice, as if the holder had been suspended for too long.
    fn lose_lock(&self, id: &SessionId);
}

/// Opens a store by its [`TestStore::address`].
pub(crate) fn open_at(address: &str) -> Arc<dyn SessionStore> {
    match address.split_once(' ') {
        Some(("directory", path)) => Arc::new(DirectoryStore::open(path).unwrap()),
        Some(("objects", url)) => open_objects(url),
        _ => panic!("`{address}` is not a store address"),
    }
}

/// A directory with a [`DirectoryStore`].
pub(crate) struct Directory(TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempdir().unwrap())
    }

    /// Creates a store inside the given directory instead of the system's temporary directory.
    pub(crate) fn inside(path: &Path) -> Option<Self> {
        tempfile::tempdir_in(path).ok().map(Self)
    }
}

impl TestStore for Directory {
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

/// A bucket or directory with an [`ObjectStore`].
pub(crate) struct Objects {
    blobs: BlobStore,
    _dir: Option<TempDir>,
}

impl Objects {
    /// Creates a store in a local directory.
    pub(crate) fn local() -> Self {
        let dir = tempdir().unwrap();
        let url = format!("file://{}/store", dir.path().display());
        Self { blobs: BlobStore::open(&url).unwrap(), _dir: Some(dir) }
    }

    /// Creates a store in memory.
    pub(crate) fn memory() -> Self {
        Self { blobs: BlobStore::open(&format!("memory://{}", SessionId::random())).unwrap(), _dir: None }
    }

    /// Creates a store on the server that `tests/stores/run` started.
    pub(crate) fn server() -> Option<Self> {
        let url = std::env::var(SERVER_VARIABLE).ok()?;
        Some(Self { blobs: BlobStore::open(&format!("{url}/{}", SessionId::random())).unwrap(), _dir: None })
    }

    fn names(&self, dir: &str, id: &SessionId) -> Vec<String> {
        let page = block_on(self.blobs.list(&format!("{dir}/{id}!"), None, BlobStore::MAX_PAGE)).unwrap();
        page.blobs.into_iter().map(|blob| blob.name).collect()
    }
}

/// Set by `tests/stores/run` to a bucket's URL.
const SERVER_VARIABLE: &str = "GLOVEBOX_TEST_STORE_URL";

/// The lease duration. It is short, so that a killed process's locks expire soon, but long enough for a slow machine to
/// renew them.
const LEASE: Duration = Duration::from_secs(4);

fn open_objects(url: &str) -> Arc<dyn SessionStore> {
    Arc::new(block_on(ObjectStore::open(url)).unwrap().with_lease(LEASE))
}

impl TestStore for Objects {
    fn open(&self) -> Arc<dyn SessionStore> {
        open_objects(self.blobs.url())
    }

    fn address(&self) -> Option<String> {
        (!self.blobs.url().starts_with("memory:")).then(|| format!("objects {}", self.blobs.url()))
    }

    fn damage(&self, id: &SessionId) {
        let head = self.names("records", id).pop().unwrap();
        block_on(self.blobs.delete(&head)).unwrap();
        block_on(self.blobs.put(&head, vec![b'x'; 4_096])).unwrap();
    }

    fn lose_lock(&self, id: &SessionId) {
        // A server can be so slow that the holder renews the lease in the meantime. In that case, a new lease exists.
        let pause = if self.address().is_some_and(|address| address.contains("s3:")) { LEASE } else { Duration::ZERO };
        loop {
            let leases = self.names("leases", id);
            for lease in &leases {
                block_on(self.blobs.delete(lease)).unwrap();
            }
            std::thread::sleep(pause);
            if pause.is_zero() || leases.is_empty() {
                return;
            }
        }
    }
}

/// Defines a test for each function and each kind of store.
macro_rules! on_each_store {
    ($($test:ident),* $(,)?) => {
        mod directory {
            $(
                #[test]
                fn $test() {
                    super::$test(&$crate::stored::test_store::Directory::new());
                }
            )*
        }

        mod objects_in_a_directory {
            $(
                #[test]
                fn $test() {
                    super::$test(&$crate::stored::test_store::Objects::local());
                }
            )*
        }

        mod objects_in_memory {
            $(
                #[test]
                fn $test() {
                    super::$test(&$crate::stored::test_store::Objects::memory());
                }
            )*
        }

        mod objects_on_a_server {
            $(
                #[test]
                #[ignore = "needs a server: tests/stores/run starts some"]
                fn $test() {
                    super::$test(&$crate::stored::test_store::Objects::server().expect("tests/stores/run sets it"));
                }
            )*
        }
    };
}
pub(crate) use on_each_store;
