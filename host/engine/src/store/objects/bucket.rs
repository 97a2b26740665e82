//! What is asked of an object store, and what is made of its answers.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::StoreError;

/// How often something is created that a store neither creates nor has.
const CREATE_ATTEMPTS: u32 = 3;

/// Whole objects under names. Reads and listings see every write that was answered before they were asked.
#[async_trait]
pub(super) trait Bucket: fmt::Debug + Send + Sync {
    /// The store as it was named.
    fn url(&self) -> &str;

    /// Creates an object, whole and lasting when this returns; whether there was none of this name. After an error it may be there.
    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError>;

    /// An object, unless it is longer than `most`; none if there is none.
    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, StoreError>;

    /// Deletes an object, which need not be there.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// The objects in a directory that come after a name, in the order of their names, up to `limit`.
    async fn list(&self, dir: &str, after: Option<&str>, limit: usize) -> Result<Vec<Listed>, StoreError>;
}

/// What a listing says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name below the URL.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// By the store's clock, in milliseconds since 1970.
    pub(super) modified_ms: i64,
}

/// What is under a name after it was to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// These bytes.
    Here,
    /// Other bytes, which stay.
    Other,
    /// Nothing, and yet it was refused: somebody else's, which was deleted since, or a store that is at work on a request for the same name.
    Gone,
}

/// Creates an object, whole and lasting when this returns [`Created::Here`].
///
/// A store may do it and its answer get lost, or may refuse because of a request that is at work on the same name (S3 does). So whoever
/// gets another answer than that it was created looks at what is there, and where that is nothing, asks again.
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

/// A name is free, and the store refuses to create it.
pub(super) fn refused(bucket: &dyn Bucket, name: &str) -> StoreError {
    failed(bucket, format!("create `{name}`"), "it refuses a name that is free")
}

/// The store could not do something.
pub(super) fn failed(
    bucket: &dyn Bucket,
    action: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Remote { url: bucket.url().to_owned(), action: action.into(), source: source.into() }
}
