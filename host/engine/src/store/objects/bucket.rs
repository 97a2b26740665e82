//! The operations on an object store, and how their results are interpreted.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::StoreError;

/// The maximum number of attempts to create an object that is refused but absent.
const CREATE_ATTEMPTS: u32 = 3;

/// Named objects. Reads and listings see every write that was acknowledged before they began.
#[async_trait]
pub(super) trait Bucket: fmt::Debug + Send + Sync {
    /// The store's URL.
    fn url(&self) -> &str;

    /// Creates an object atomically and durably. Returns whether the name was free. After an error the object may exist.
    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError>;

    /// Reads an object of at most `most` bytes. `None` if absent.
    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, StoreError>;

    /// Deletes an object, if it exists.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// Lists the objects in a directory after a name, in the order of their names, up to `limit`.
    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<Listed>, StoreError>;
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name below the URL.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// By the store's clock, in milliseconds since 1970.
    pub(super) modified_ms: i64,
}

/// What exists under a name after an attempt to create it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// These bytes.
    Here,
    /// Other bytes, which stay.
    Other,
    /// Nothing, though creation was refused: another's object was deleted since, or the store is processing a request for the same name.
    Gone,
}

/// Creates an object, atomically and durably when this returns [`Created::Here`].
///
/// The answer to a successful request may be lost, and a store may refuse because of a concurrent request for the same name (S3 does).
/// Unless creation is confirmed, this therefore compares what is there, and retries if nothing is.
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

/// A name is free, but the store refuses to create it.
pub(super) fn refused(bucket: &dyn Bucket, name: &str) -> StoreError {
    failed(bucket, format!("create `{name}`"), "it refuses a name that is free")
}

/// The store could not perform an operation.
pub(super) fn failed(
    bucket: &dyn Bucket,
    action: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Remote { url: bucket.url().to_owned(), action: action.into(), source: source.into() }
}
