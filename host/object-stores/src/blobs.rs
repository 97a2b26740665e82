//! Immutable named blobs in a store with a URL.

use bytes::Bytes;
use glovebox::{Timestamp, escaped};
use glovebox_sessions::StoreError;

use crate::bucket::{Bucket as _, CreateOutcome, ObjectContents, Objects, create, refused};

/// A store of immutable blobs with names, in S3 (`s3://BUCKET/PREFIX`), Google Cloud Storage (`gs://`), Azure
/// (`az://`), a directory (`file:///DIRECTORY`) or this process's memory (`memory://NAME`). Cheap to clone.
///
/// Credentials, regions and endpoints come from the environment variables of each provider's own tools, such as
/// `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS` and `AZURE_STORAGE_ACCOUNT_KEY`.
/// `AWS_ALLOW_HTTP=true` permits an endpoint without TLS.
///
/// A write is atomic, and durable when [`put`](Self::put) returns. The futures can be polled from any thread, inside or
/// outside an async runtime. A request that fails for a transient reason is retried up to 6 times within 15 s.
/// Including retries, a request takes at most 30 s, plus one second per mebibyte. Only listing a local directory has no
/// time limit. A `put` can take up to 6 requests.
///
/// ```
/// use glovebox_object_stores::BlobStore;
///
/// # fn main() -> Result<(), glovebox_object_stores::BlobError> {
/// let blobs = BlobStore::open("memory://example")?;
/// let stored = glovebox_sessions::block_on(async {
///     blobs.put("sessions/notes/1-ab", b"state".as_slice()).await?;
///     blobs.get("sessions/notes/1-ab", BlobStore::MAX_BYTES).await
/// })?;
/// assert_eq!(stored.as_deref(), Some(b"state".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlobStore(Objects);

/// A blob in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobInfo {
    /// The name of the blob.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// The time of the write, by the store's clock.
    pub stored_at: Timestamp,
}

/// A page of a store's blobs, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobPage {
    /// The blobs of the page.
    pub blobs: Vec<BlobInfo>,
    /// The name after which the next page begins. `None` on the last page.
    pub next: Option<String>,
}

/// Errors of blob operations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The blob exceeds the size limit.
    #[error("blob `{name}` is {bytes} bytes; the maximum is {max}; store a smaller blob", name = escaped(.name))]
    TooLarge {
        /// The blob's name.
        name: String,
        /// The length of the blob in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// A blob with this name already exists and has different contents.
    #[error("blob `{name}` already exists with other contents, and blobs are immutable; use another name", name = escaped(.name))]
    Exists {
        /// The blob's name.
        name: String,
    },
    /// The text is not a valid blob name.
    #[error("`{name}` is not a valid blob name; use at most 512 bytes: parts of 1 to 240 ASCII letters, digits, `.`, `_`, `-` or `!`, separated by `/`", name = escaped(.name))]
    Name {
        /// The invalid name.
        name: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BlobStore {
    /// Maximum size of a blob: 1 GiB. Larger blobs are neither written nor read.
    pub const MAX_BYTES: u64 = 1 << 30;
    /// Maximum size of a page: 1,000 blobs.
    pub const MAX_PAGE: usize = 1_000;
    /// Maximum length of a name: 512 bytes.
    pub const MAX_NAME_BYTES: usize = 512;

    /// Opens the store with this URL, without sending a request. A missing directory is created with access only for
    /// its owner.
    ///
    /// # Errors
    /// [`StoreError::Url`] if the text is not the URL of a store, [`StoreError::Directory`] if the directory is
    /// unusable, and [`StoreError::Remote`] if the environment has no usable configuration.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self(Objects::open(url)?))
    }

    /// Returns the store's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Writes a blob. Succeeds if the same bytes already exist under this name. Derive names from the contents.
    ///
    /// # Errors
    /// [`BlobError::Exists`] if different bytes exist under this name. The existing blob remains. [`BlobError::Name`] if
    /// the name is invalid. [`BlobError::TooLarge`] if the blob exceeds [`MAX_BYTES`](Self::MAX_BYTES).
    /// [`BlobError::Store`] if the store failed. The blob may then exist, and a retry is safe.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<(), BlobError> {
        let bytes = bytes.into();
        check_name(name)?;
        let length = bytes.len() as u64;
        if length > Self::MAX_BYTES {
            return Err(BlobError::TooLarge { name: name.to_owned(), bytes: length, max: Self::MAX_BYTES });
        }
        match create(&self.0, name, bytes).await? {
            CreateOutcome::Here => Ok(()),
            CreateOutcome::Other => Err(BlobError::Exists { name: name.to_owned() }),
            CreateOutcome::Gone => Err(refused(&self.0, name).into()),
        }
    }

    /// Reads a blob. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`] if the blob is longer than `max_bytes` or [`MAX_BYTES`](Self::MAX_BYTES). The blob is
    /// then not read. [`BlobError::Name`] if the name is invalid. [`BlobError::Store`] if the store failed.
    pub async fn get(&self, name: &str, max_bytes: u64) -> Result<Option<Bytes>, BlobError> {
        check_name(name)?;
        let max = max_bytes.min(Self::MAX_BYTES);
        match self.0.get(name, max).await? {
            Some(ObjectContents::Bytes(bytes)) => Ok(Some(bytes)),
            Some(ObjectContents::TooLong { bytes }) => Err(BlobError::TooLarge { name: name.to_owned(), bytes, max }),
            None => Ok(None),
        }
    }

    /// Deletes a blob, if it exists.
    ///
    /// # Errors
    /// [`BlobError::Name`] if the name is invalid, and [`BlobError::Store`] if the store failed.
    pub async fn delete(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        Ok(self.0.delete(name).await?)
    }

    /// Lists at most `limit` blobs whose names sort after `after`, in the order of their names. `limit` is clamped to
    /// the range from 1 to [`MAX_PAGE`](Self::MAX_PAGE).
    ///
    /// `prefix` consists of whole name parts: `sessions/notes` matches names that begin with `sessions/notes/`. An
    /// empty prefix matches all names.
    ///
    /// # Errors
    /// [`BlobError::Name`] if `prefix` or `after` is invalid, and [`BlobError::Store`] if the store failed.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<BlobPage, BlobError> {
        if !prefix.is_empty() {
            check_name(prefix)?;
        }
        after.map_or(Ok(()), check_name)?;
        let limit = limit.clamp(1, Self::MAX_PAGE);
        // List one blob more than `limit`, to detect whether another page follows.
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

/// Converts a time of the store's clock, in milliseconds since 1970. Clamps earlier times to 1970.
pub(crate) fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(u64::try_from(ms).unwrap_or_default())
}

/// Maximum length of a name part in bytes. The limit leaves space in a file name for the suffix of an unfinished write.
const MAX_PART_BYTES: usize = 240;

/// Rejects names that a store would encode or interpret in a special way.
fn check_name(name: &str) -> Result<(), BlobError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-!".contains(&byte);
    let part = |part: &str| {
        (1..=MAX_PART_BYTES).contains(&part.len()) && part != "." && part != ".." && part.bytes().all(plain)
    };
    if name.len() <= BlobStore::MAX_NAME_BYTES && name.split('/').all(part) {
        return Ok(());
    }
    Err(BlobError::Name { name: name.chars().take(BlobStore::MAX_NAME_BYTES).collect() })
}
