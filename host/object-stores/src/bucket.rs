//! The operations of an object store, and the interpretation of their results. This module lists local directories
//! itself, because the listing of `object_store` omits files that are deleted during the listing, and the files that
//! replace them.

use std::{
    ffi::OsStr,
    fmt, fs,
    future::Future,
    io,
    panic::resume_unwind,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use glovebox_sessions::StoreError;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, path::Path as ObjectPath};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::location::{StoreLocation, shown};

/// Maximum number of attempts to create an object. A failed or refused attempt is retried while the object is absent.
const CREATE_ATTEMPTS: u32 = 3;

/// A set of named objects. Reads and listings include every write that was acknowledged before they began.
#[async_trait]
pub(crate) trait Bucket: fmt::Debug + Send + Sync {
    /// Returns the store's URL.
    fn url(&self) -> &str;

    /// Creates an object atomically and durably. Returns `false` if the name was taken. After an error, the object may
    /// exist.
    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError>;

    /// Reads an object of at most `max` bytes. Returns `None` if it is absent.
    async fn get(&self, name: &str, max: u64) -> Result<Option<ObjectContents>, StoreError>;

    /// Deletes an object, if it exists.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// Lists at most `limit` objects in a directory whose names sort after `after`, in the order of their names.
    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<ListedObject>, StoreError>;
}

/// The bytes of an object, unless it has more bytes than a read permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectContents {
    Bytes(Bytes),
    TooLong { bytes: u64 },
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedObject {
    /// The name relative to the URL.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The time of the write, by the store's clock, in milliseconds since 1970.
    pub(crate) modified_ms: i64,
}

/// The state of a name after an attempt to create an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateOutcome {
    /// The name has the intended bytes.
    Here,
    /// The name has different bytes, which were not changed.
    Other,
    /// The store refused to create the object, but has no object with this name. Either the object has since
    /// been deleted, or the store was processing another request for the name.
    Gone,
}

/// Creates an object atomically. After [`CreateOutcome::Here`], the object is durable.
///
/// The response to a successful request may be lost, and a store such as S3 can refuse a request because of a
/// concurrent request for the same name. Unless the store confirms the creation, this function compares the existing
/// object with `bytes`. If no object exists, it retries the creation.
pub(crate) async fn create(bucket: &dyn Bucket, name: &str, bytes: Bytes) -> Result<CreateOutcome, StoreError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failed = match bucket.try_create(name, bytes.clone()).await {
            Ok(true) => return Ok(CreateOutcome::Here),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let max = bytes.len() as u64;
        match bucket.get(name, max).await {
            Ok(Some(ObjectContents::Bytes(found))) if found == bytes => return Ok(CreateOutcome::Here),
            Ok(Some(_)) => return Ok(CreateOutcome::Other),
            Ok(None) if attempts < CREATE_ATTEMPTS => {}
            Ok(None) => return failed.map_or(Ok(CreateOutcome::Gone), Err),
            Err(error) => return Err(failed.unwrap_or(error)),
        }
    }
}

/// Returns the error for a store that refuses to create an object although no object has the name.
pub(crate) fn refused(bucket: &dyn Bucket, name: &str) -> StoreError {
    failed(bucket, format!("create `{name}`"), "it refuses to create the object, although the name is unused")
}

/// Returns the error for a failed operation.
pub(crate) fn failed(
    bucket: &dyn Bucket,
    action: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Remote { url: bucket.url().to_owned(), action: action.into(), source: source.into() }
}

/// Lists at most `limit` files below a directory whose names sort after `after`, in the order of their names.
///
/// Reads all names in a directory before any metadata. The log of a session has so few names that Linux returns them in
/// one system call, as a consistent snapshot. A file that is deleted afterwards is listed with length 0, and a read
/// reports it as absent.
pub(crate) fn list(root: &Path, dir: &str, after: Option<&str>, limit: usize) -> io::Result<Vec<ListedObject>> {
    let mut names = Vec::new();
    collect(root, dir, &mut names)?;
    names.retain(|name| after.is_none_or(|after| name.as_str() > after));
    names.sort_unstable();
    names.truncate(limit);
    names.into_iter().map(|name| describe(root, name)).collect()
}

fn collect(root: &Path, dir: &str, names: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry?;
        // Skip the temporary files of `object_store`, whose names contain a `#`, and names that are not UTF-8.
        let Some(name) = entry.file_name().to_str().filter(|name| !name.contains('#')).map(str::to_owned) else {
            continue;
        };
        let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => dirs.push(name),
            Ok(kind) if kind.is_file() => files.push(name),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    names.append(&mut files);
    dirs.iter().try_for_each(|dir| collect(root, dir, names))
}

fn describe(root: &Path, name: String) -> io::Result<ListedObject> {
    match fs::symlink_metadata(root.join(&name)) {
        Ok(metadata) => {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified_ms = i64::try_from(modified.as_millis()).unwrap_or(i64::MAX);
            Ok(ListedObject { name, bytes: metadata.len(), modified_ms })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ListedObject { name, bytes: 0, modified_ms: 0 }),
        Err(error) => Err(error),
    }
}

/// Removes temporary files that killed writers left behind, if the files are older than `older_than`. `object_store`
/// first writes each object to a file `NAME#NUMBER`. Failed removals are retried when the store is next opened.
pub(crate) fn remove_staged(root: &Path, older_than: Duration) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            remove_staged(&entry.path(), older_than);
        } else if kind.is_file() && is_staged(&entry.file_name()) {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > older_than));
            if is_old && let Err(error) = fs::remove_file(entry.path()) {
                tracing::debug!(target: "glovebox", %error, "could not remove a file of a killed writer");
            }
        }
    }
}

fn is_staged(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.rsplit_once('#'));
    number.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

// Operations on whole objects, and the threads that run them. Operations have size and time limits, except that listing
// a local directory has no time limit.

/// The timeout of an operation with its retries. The time for transferring the bytes is added to this timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The transfer rate for computing timeouts: one mebibyte per second.
const MIN_BYTES_PER_SECOND: u64 = 1 << 20;
/// The number of bytes that a read may transfer, for computing its timeout: the maximum size of a blob.
const MAX_WAITED_BYTES: u64 = 1 << 30;

/// The objects below a URL. The value is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    location: Arc<StoreLocation>,
    background: SharedRuntime,
}

impl Objects {
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Remote { url: shown(url), action: "be set up".into(), source };
        let background = SharedRuntime::get().map_err(|error| failed(error.into()))?;
        let handle = background.handle().ok_or_else(|| failed("the store was closed".into()))?;
        Ok(Self { location: Arc::new(StoreLocation::of(url, handle)?), background })
    }

    fn path(&self, name: &str) -> ObjectPath {
        // The empty name, which is a valid prefix, splits into one empty part. Skip it.
        name.split('/').filter(|part| !part.is_empty()).fold(self.location.prefix.clone(), |path, part| path.join(part))
    }

    pub(crate) fn background(&self) -> &SharedRuntime {
        &self.background
    }

    /// Runs an operation on the store's threads, with the timeout for a transfer of `bytes` bytes.
    async fn run_with_timeout<T: Send + 'static>(
        &self,
        bytes: u64,
        action: String,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let max = TIMEOUT + Duration::from_secs(bytes / MIN_BYTES_PER_SECOND);
        let done = self.background.run(async move { tokio::time::timeout(max, work).await }).await;
        Err(match done {
            Some(Ok(Ok(done))) => return Ok(done),
            Some(Ok(Err(error))) => failed(self, action, error),
            Some(Err(_)) => failed(self, action, format!("it took longer than {} s", max.as_secs())),
            None => failed(self, action, "the store was closed"),
        })
    }
}

#[async_trait]
impl Bucket for Objects {
    fn url(&self) -> &str {
        &self.location.url
    }

    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError> {
        let (store, path) = (Arc::clone(&self.location.store), self.path(name));
        let length = bytes.len() as u64;
        let created = self.run_with_timeout(length, format!("create `{name}`"), async move {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match store.put_opts(&path, PutPayload::from_bytes(bytes), options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        });
        created.await
    }

    async fn get(&self, name: &str, max: u64) -> Result<Option<ObjectContents>, StoreError> {
        let (store, path) = (Arc::clone(&self.location.store), self.path(name));
        let found = self.run_with_timeout(max.min(MAX_WAITED_BYTES), format!("read `{name}`"), async move {
            let found = match store.get(&path).await {
                Ok(found) => found,
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let bytes = found.meta.size;
            if bytes > max {
                return Ok(Some(ObjectContents::TooLong { bytes }));
            }
            match found.bytes().await {
                Ok(bytes) => Ok(Some(ObjectContents::Bytes(bytes))),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        found.await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let (store, path) = (Arc::clone(&self.location.store), self.path(name));
        let deleted = self.run_with_timeout(0, format!("delete `{name}`"), async move {
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        deleted.await
    }

    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<ListedObject>, StoreError> {
        if let Some(root) = &self.location.local {
            let (root, dir, after) = (root.clone(), dir.to_owned(), after.map(str::to_owned));
            let action = format!("list `{dir}`");
            let listed = move || list(&root, &dir, after.as_deref(), limit);
            let listed = self.background.run(async move { tokio::task::spawn_blocking(listed).await }).await;
            return match listed {
                Some(Ok(Ok(listed))) => Ok(listed),
                Some(Ok(Err(error))) => Err(failed(self, action, error)),
                Some(Err(error)) => Err(failed(self, action, error)),
                None => Err(failed(self, action, "the store was closed")),
            };
        }
        let store = Arc::clone(&self.location.store);
        let (prefix, path) = (self.location.prefix.clone(), self.path(dir));
        // Parse the name without encoding it, as for listings, because encoding would change the sort position.
        let after = after.map(|name| ObjectPath::parse(format!("{prefix}/{name}"))).transpose();
        let after = after.map_err(|error| failed(self, format!("list `{dir}`"), error))?;
        let listed = self.run_with_timeout(0, format!("list `{dir}`"), async move {
            let mut names = match &after {
                Some(after) => store.list_with_offset(Some(&path), after),
                None => store.list(Some(&path)),
            };
            let mut listed = Vec::new();
            while listed.len() < limit {
                let found = match names.next().await {
                    Some(Ok(found)) => found,
                    Some(Err(error)) => return Err(error),
                    None => break,
                };
                let Some(name) = relative_name(&prefix, &found.location) else { continue };
                let modified_ms = found.last_modified.timestamp_millis();
                listed.push(ListedObject { name, bytes: found.size, modified_ms });
            }
            Ok(listed)
        });
        listed.await
    }
}

/// Returns the name relative to the prefix.
fn relative_name(prefix: &ObjectPath, location: &ObjectPath) -> Option<String> {
    let rest = location.as_ref().strip_prefix(prefix.as_ref())?;
    Some(rest.strip_prefix('/').unwrap_or(rest).to_owned())
}

/// Number of threads. A second thread is available while one thread processes a large state.
const THREADS: usize = 2;

/// A small runtime that all stores of the process share, so that their futures can be polled inside or outside any
/// other runtime. The runtime is shut down when the last store is dropped.
#[derive(Clone)]
pub(crate) struct SharedRuntime(Arc<Threads>);

struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Shut down in the background, because an ordinary drop would block, which panics inside another runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for SharedRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRuntime")
    }
}

impl SharedRuntime {
    /// Returns the shared runtime. Starts it if necessary.
    pub(crate) fn get() -> io::Result<Self> {
        static SHARED: Mutex<Weak<Threads>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        if let Some(threads) = shared.upgrade() {
            return Ok(Self(threads));
        }
        let mut builder = Builder::new_multi_thread();
        let runtime =
            builder.worker_threads(THREADS).thread_name("glovebox-store").enable_io().enable_time().build()?;
        let threads = Arc::new(Threads(Some(runtime)));
        *shared = Arc::downgrade(&threads);
        Ok(Self(threads))
    }

    /// Returns the handle for spawning tasks.
    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.0.0.as_ref().map(Runtime::handle)
    }

    /// Runs a future on the runtime. Returns `None` if the runtime has shut down. Dropping the returned future does not
    /// cancel the work.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        match self.handle()?.spawn(work).await {
            Ok(done) => Some(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => None,
            },
        }
    }
}
