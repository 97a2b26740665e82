//! Checks whether a store is suitable for sessions.

use std::time::Instant;

use super::{bucket::Bucket, lease::StoreClock};
use crate::{entropy, store::StoreError};

/// Creates an object, tries to create it again, reads, lists and deletes it. Returns the store's clock.
pub(super) async fn probe(bucket: &dyn Bucket) -> Result<StoreClock, StoreError> {
    let unfit = |reason: &str| StoreError::Unfit { url: bucket.url().to_owned(), reason: reason.to_owned() };
    let dir = format!("probes/{}", entropy::random_id());
    let name = format!("{dir}/a");
    let most = 16;
    if !bucket.try_create(&name, "first".into()).await? {
        return Err(unfit("it refuses a new name"));
    }
    let seen_at = Instant::now();
    let created_twice = bucket.try_create(&name, "second".into()).await?;
    let read = bucket.get(&name, most).await?;
    let listed = bucket.list(&dir, None, usize::MAX).await?;
    bucket.delete(&name).await?;
    let is_deleted = bucket.get(&name, most).await?.is_none();
    let is_unlisted = bucket.list(&dir, None, usize::MAX).await?.is_empty();
    if created_twice {
        return Err(unfit("it creates a name that is taken, so that of two writers both would win"));
    }
    if read.as_deref() != Some(b"first") {
        return Err(unfit("what was written is not what is read"));
    }
    let [found] = &*listed else { return Err(unfit("it does not list what was written")) };
    if found.name != name || found.bytes != 5 {
        return Err(unfit("it lists something else than what was written"));
    }
    if !is_deleted || !is_unlisted {
        return Err(unfit("it has what was deleted"));
    }
    Ok(StoreClock { seen_ms: found.modified_ms, seen_at })
}
