//! Immutable bytes under names, in a store that a URL names.

use bytes::Bytes;

use super::{
    bounded::Objects,
    bucket::{Bucket as _, Created, create, refused},
};
use crate::{Timestamp, store::StoreError};

/// Keeps immutable blobs under names, in S3 (`s3://BUCKET/PREFIX`), Google Cloud Storage (`gs://`), Azure (`az://`), a directory
/// (`file:///DIRECTORY`) or this process's memory (`memory://NAME`). Cheap to clone.
///
/// Credentials, regions and endpoints come from the environment, by the names that each provider's own tools have
/// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_KEY` and so on; `AWS_ALLOW_HTTP=true` for an
/// endpoint without TLS).
///
/// A blob is written whole or not at all, and lasts when [`put`](Self::put) returns. Its futures can be polled from any thread, inside of an
/// asynchronous runtime and outside. A request that fails for a reason that may pass is tried again up to 6 times within 15 s; an operation
/// takes 30 s at most, and a second more for each mebibyte.
///
/// ```
/// use glovebox::BlobStore;
///
/// # fn main() -> Result<(), glovebox::StoreError> {
/// let blobs = BlobStore::open("memory://example")?;
/// let stored = glovebox::block_on(async {
///     blobs.put("sessions/notes/1-ab", b"state".as_slice()).await?;
///     blobs.get("sessions/notes/1-ab", BlobStore::MAX_BYTES).await
/// })?;
/// assert_eq!(stored.as_deref(), Some(b"state".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlobStore(Objects);

/// A line of a listing of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobInfo {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub stored_at: Timestamp,
}

/// Some of the blobs of a store, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobPage {
    /// The blobs.
    pub blobs: Vec<BlobInfo>,
    /// After which name the next page begins; none if this is the last.
    pub next: Option<String>,
}

impl BlobStore {
    /// The longest blob: 1 GiB. Longer ones are neither written nor read.
    pub const MAX_BYTES: u64 = 1 << 30;
    /// The most blobs of a page.
    pub const MAX_PAGE: usize = 1_000;
    /// The longest name, in bytes.
    pub const MAX_NAME_BYTES: usize = 512;

    /// The store of a URL. Nothing is asked of it yet; a directory is made where it is missing, for its user alone.
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Directory`], and [`StoreError::Remote`] where the environment has no usable configuration.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self(Objects::open(url)?))
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Writes a blob. Where the same bytes are there under this name, that is done already; names should say what is in them.
    ///
    /// # Errors
    /// [`StoreError::BlobExists`] where other bytes are there: they stay. [`StoreError::BlobName`], [`StoreError::BlobTooLarge`] and
    /// [`StoreError::Remote`]; after the last the blob may be there all the same, and may be written again.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<(), StoreError> {
        let bytes = bytes.into();
        check_name(name)?;
        let length = bytes.len() as u64;
        if length > Self::MAX_BYTES {
            return Err(StoreError::BlobTooLarge { name: name.to_owned(), bytes: length, most: Self::MAX_BYTES });
        }
        match create(&self.0, name, bytes).await? {
            Created::Here => Ok(()),
            Created::Other => Err(StoreError::BlobExists { name: name.to_owned() }),
            Created::Gone => Err(refused(&self.0, name)),
        }
    }

    /// A blob; none if there is none of this name.
    ///
    /// # Errors
    /// [`StoreError::BlobTooLarge`] where it has more than `max_bytes` or [`MAX_BYTES`](Self::MAX_BYTES): it is not read.
    /// [`StoreError::BlobName`] and [`StoreError::Remote`].
    pub async fn get(&self, name: &str, max_bytes: u64) -> Result<Option<Bytes>, StoreError> {
        check_name(name)?;
        self.0.get(name, max_bytes.min(Self::MAX_BYTES)).await
    }

    /// Deletes a blob, which need not be there.
    ///
    /// # Errors
    /// [`StoreError::BlobName`] and [`StoreError::Remote`].
    pub async fn delete(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        self.0.delete(name).await
    }

    /// The blobs under a prefix of whole parts (`sessions/notes`: all whose names begin with `sessions/notes/`; all blobs where it is
    /// empty), in the order of their names, after one of them, at most `limit` and [`MAX_PAGE`](Self::MAX_PAGE) of them.
    ///
    /// # Errors
    /// [`StoreError::BlobName`] and [`StoreError::Remote`].
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<BlobPage, StoreError> {
        if !prefix.is_empty() {
            check_name(prefix)?;
        }
        after.map_or(Ok(()), check_name)?;
        let limit = limit.clamp(1, Self::MAX_PAGE);
        // One more, to see whether there is a next page.
        let listed = self.0.list(prefix, after, limit + 1).await?;
        let mut blobs: Vec<BlobInfo> = listed
            .into_iter()
            .map(|listed| BlobInfo { name: listed.name, bytes: listed.bytes, stored_at: timestamp(listed.modified_ms) })
            .collect();
        let has_more = blobs.len() > limit;
        blobs.truncate(limit);
        let next = blobs.last().filter(|_| has_more).map(|last| last.name.clone());
        Ok(BlobPage { blobs, next })
    }
}

/// A store's time.
pub(super) fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(u64::try_from(ms).unwrap_or_default())
}

/// The longest part of a name: as long as a file's name may be, with what is appended while it is written.
const MAX_PART_BYTES: usize = 240;

/// Names that every store has as they are: in no store is anything encoded or has a meaning of its own.
fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-!".contains(&byte);
    let part = |part: &str| {
        (1..=MAX_PART_BYTES).contains(&part.len()) && part != "." && part != ".." && part.bytes().all(plain)
    };
    if name.len() <= BlobStore::MAX_NAME_BYTES && name.split('/').all(part) {
        return Ok(());
    }
    Err(StoreError::BlobName { name: name.chars().take(BlobStore::MAX_NAME_BYTES).collect() })
}
