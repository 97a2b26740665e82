//! What is asked of a store: whole objects, each within limits of size and time.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, path::Path};

use super::{background::Background, place::Place};
use crate::store::StoreError;

/// How long one operation may take with everything that it is tried again for, in addition to what its bytes take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The slowest transfer that is waited for: a mebibyte a second.
const MIN_BYTES_PER_SECOND: u64 = 1 << 20;
/// What is waited for where nobody knows how long an object is before it comes: as for a blob of the greatest length.
const MAX_WAITED_BYTES: u64 = 1 << 30;

/// How often something is created that a store neither creates nor has.
const CREATE_ATTEMPTS: u32 = 3;

/// What is under a name after it was to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// These bytes.
    Here,
    /// Other bytes, which stay.
    Other,
}

/// The objects under a URL. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    place: Arc<Place>,
    background: Background,
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

impl Objects {
    pub(super) fn open(url: &str) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Remote { url: url.to_owned(), action: "be set up".into(), source };
        let background = Background::get().map_err(|error| failed(error.into()))?;
        let handle = background.handle().ok_or_else(|| failed("its threads have ended".into()))?;
        Ok(Self { place: Arc::new(Place::of(url, handle)?), background })
    }

    /// The store as it was named.
    pub(super) fn url(&self) -> &str {
        &self.place.url
    }

    /// Creates an object, whole and lasting when this returns [`Created::Here`].
    ///
    /// A store may do it and its answer get lost, or may refuse because of a request that is at work on the same name (S3 does). So whoever
    /// gets another answer than that it was created looks at what is there, and where that is nothing, asks again.
    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<Created, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let failed = match self.try_create(name, bytes.clone()).await {
                Ok(true) => return Ok(Created::Here),
                Ok(false) => None,
                Err(error) => Some(error),
            };
            let most = bytes.len() as u64;
            match self.get(name, most).await {
                Ok(Some(found)) if found == bytes => return Ok(Created::Here),
                Ok(Some(_)) | Err(StoreError::BlobTooLarge { .. }) => return Ok(Created::Other),
                Ok(None) if attempts < CREATE_ATTEMPTS => {}
                Ok(None) => {
                    return Err(failed.unwrap_or_else(|| self.failed(create(name), "it refuses a name that is free")));
                }
                Err(error) => return Err(failed.unwrap_or(error)),
            }
        }
    }

    /// Whether it was created; false where the store says that there is one.
    async fn try_create(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError> {
        let store = Arc::clone(&self.place.store);
        let path = self.path(name);
        let length = bytes.len() as u64;
        let created = self.within(length, create(name), async move {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match store.put_opts(&path, PutPayload::from_bytes(bytes), options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        });
        created.await
    }

    /// An object, unless it is longer than `most`; none if there is none.
    pub(super) async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, StoreError> {
        let store = Arc::clone(&self.place.store);
        let path = self.path(name);
        let found = self.within(most.min(MAX_WAITED_BYTES), format!("read `{name}`"), async move {
            let found = match store.get(&path).await {
                Ok(found) => found,
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let bytes = found.meta.size;
            if bytes > most {
                return Ok(Some(Err(bytes)));
            }
            match found.bytes().await {
                Ok(bytes) => Ok(Some(Ok(bytes))),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        match found.await? {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(bytes)) => Err(StoreError::BlobTooLarge { name: name.to_owned(), bytes, most }),
            None => Ok(None),
        }
    }

    /// Deletes an object, which need not be there.
    pub(super) async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let store = Arc::clone(&self.place.store);
        let path = self.path(name);
        let deleted = self.within(0, format!("delete `{name}`"), async move {
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        deleted.await
    }

    /// The objects in a directory that come after a name, in their order, until `wants` says that it has enough. A directory of the host is
    /// read whole, since it has no order.
    pub(super) async fn list_while(
        &self,
        dir: &str,
        after: Option<&str>,
        mut wants: impl FnMut(&Listed) -> bool + Send + 'static,
    ) -> Result<Vec<Listed>, StoreError> {
        let (store, is_ordered) = (Arc::clone(&self.place.store), self.place.is_ordered);
        let (prefix, path, after) = (self.place.prefix.clone(), self.path(dir), after.map(|name| self.path(name)));
        let mut listed = self
            .within(0, format!("list `{dir}`"), async move {
                let mut names = match &after {
                    Some(after) => store.list_with_offset(Some(&path), after),
                    None => store.list(Some(&path)),
                };
                let mut listed = Vec::new();
                while let Some(found) = names.next().await {
                    let found = match found {
                        Ok(found) => found,
                        // Removed while the directory was read.
                        Err(object_store::Error::NotFound { .. }) => continue,
                        Err(error) => return Err(error),
                    };
                    let Some(name) = below(&prefix, &found.location) else { continue };
                    let modified_ms = found.last_modified.timestamp_millis();
                    let found = Listed { name, bytes: found.size, modified_ms };
                    let goes_on = !is_ordered || wants(&found);
                    listed.push(found);
                    if !goes_on {
                        return Ok((listed, wants));
                    }
                }
                Ok((listed, wants))
            })
            .await?;
        if !is_ordered {
            listed.0.sort_by(|one, other| one.name.cmp(&other.name));
            let mut wants = listed.1;
            let enough = listed.0.iter().position(|found| !wants(found));
            listed.0.truncate(enough.map_or(usize::MAX, |last| last + 1));
        }
        Ok(listed.0)
    }

    fn path(&self, name: &str) -> Path {
        // None has an empty part but the prefix of all.
        name.split('/').filter(|part| !part.is_empty()).fold(self.place.prefix.clone(), |path, part| path.join(part))
    }

    /// Does something on the store's threads, for so long as these bytes may take.
    async fn within<T: Send + 'static>(
        &self,
        bytes: u64,
        action: String,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let most = TIMEOUT + Duration::from_secs(bytes / MIN_BYTES_PER_SECOND);
        let done = self.background.run(async move { tokio::time::timeout(most, work).await }).await;
        Err(match done {
            Some(Ok(Ok(done))) => return Ok(done),
            Some(Ok(Err(error))) => self.failed(action, error),
            Some(Err(_)) => self.failed(action, format!("it took longer than {} s", most.as_secs())),
            None => self.failed(action, "its threads have ended"),
        })
    }

    fn failed(&self, action: String, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
        StoreError::Remote { url: self.url().to_owned(), action, source: source.into() }
    }
}

fn create(name: &str) -> String {
    format!("create `{name}`")
}

/// A name below the prefix.
fn below(prefix: &Path, location: &Path) -> Option<String> {
    let rest = location.as_ref().strip_prefix(prefix.as_ref())?;
    Some(rest.strip_prefix('/').unwrap_or(rest).to_owned())
}
