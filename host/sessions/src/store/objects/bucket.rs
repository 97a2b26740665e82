//! The operations of an object store, and the interpretation of their results. The library's listing of a directory on
//! this machine omits files that are deleted meanwhile, and also the files that replace them, so this module lists it.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::StoreError;

/// Maximum number of attempts to create an object that the store refuses although it is absent.
const CREATE_ATTEMPTS: u32 = 3;

/// Named objects. Reads and listings see every write that was acknowledged before they began.
#[async_trait]
pub(super) trait Bucket: fmt::Debug + Send + Sync {
    /// Returns the store's URL.
    fn url(&self) -> &str;

    /// Creates an object atomically and durably. Returns `false` if the name was taken. After an error the object may
    /// exist.
    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError>;

    /// Reads an object of at most `most` bytes. Returns `None` if it is absent.
    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, StoreError>;

    /// Deletes an object, if it exists.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// Lists up to `limit` objects in a directory after a name, in the order of their names.
    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<Listed>, StoreError>;
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Name below the URL.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Time of the write, by the store's clock, in milliseconds since 1970.
    pub(super) modified_ms: i64,
}

/// The contents of a name after an attempt to create an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// The intended bytes.
    Here,
    /// The name has other bytes, which stay.
    Other,
    /// The store refused to create the object, but has none. Either it was deleted since, or the store was processing
    /// another request for the name.
    Gone,
}

/// Creates an object, atomically. The object is durable when this returns [`Created::Here`].
///
/// The response to a successful request may be lost, and a store may refuse because of a concurrent request for the
/// same name (S3 does). Unless the creation is confirmed, this compares the existing object, and retries if there is no
/// object.
pub(super) async fn create(bucket: &dyn Bucket, name: &str, bytes: Bytes) -> Result<Created, StoreError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failed = match bucket.try_create(name, bytes.clone()).await {
            Ok(true) => return Ok(Created::Here),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let most = bytes.len() as u64;
        match bucket.get(name, most).await {
            Ok(Some(found)) if found == bytes => return Ok(Created::Here),
            Ok(Some(_)) | Err(StoreError::BlobTooLarge { .. }) => return Ok(Created::Other),
            Ok(None) if attempts < CREATE_ATTEMPTS => {}
            Ok(None) => return failed.map_or(Ok(Created::Gone), Err),
            Err(error) => return Err(failed.unwrap_or(error)),
        }
    }
}

/// Returns the error for a store that refuses to create an absent object.
pub(super) fn refused(bucket: &dyn Bucket, name: &str) -> StoreError {
    failed(bucket, format!("create `{name}`"), "it refuses an unused name")
}

/// Returns the error for a failed operation.
pub(super) fn failed(
    bucket: &dyn Bucket,
    action: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Remote { url: bucket.url().to_owned(), action: action.into(), source: source.into() }
}

/// Lists the files below a directory after a name, in the order of their names.
///
/// Reads all names of a directory before any metadata. Linux returns as many names as a session's log has in one call,
/// and so as of one moment. A file that is deleted afterwards is listed with length 0, and a read of it finds it
/// absent.
pub(super) fn list(root: &Path, dir: &str, after: Option<&str>, limit: usize) -> io::Result<Vec<Listed>> {
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
        // Skip names that blobs cannot have. The library's temporary files contain a `#`.
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

fn describe(root: &Path, name: String) -> io::Result<Listed> {
    match fs::symlink_metadata(root.join(&name)) {
        Ok(metadata) => {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified_ms = i64::try_from(modified.as_millis()).unwrap_or(i64::MAX);
            Ok(Listed { name, bytes: metadata.len(), modified_ms })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Listed { name, bytes: 0, modified_ms: 0 }),
        Err(error) => Err(error),
    }
}

/// Removes files of killed writers: the library writes to `NAME#NUMBER` first. Failures are retried when the store is
/// opened again.
pub(super) fn remove_staged(root: &Path, older_than: Duration) {
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
