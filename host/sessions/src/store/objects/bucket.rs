//! The operations of an object store, and the interpretation of their results.

use std::fmt;

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
    /// Other bytes, which remain.
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
