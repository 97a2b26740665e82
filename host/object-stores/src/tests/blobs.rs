//! Tests blobs in memory and in a directory, and the lease protocol.

use std::{
    cell::Cell,
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox_sessions::{PageRequest, SessionId, SessionStore as _, StoreError, block_on};
use object_store::{ObjectStoreExt as _, PutPayload, path::Path};
use tempfile::tempdir;

use super::model::{Run, Task, exhaustively};
use crate::{
    BlobError, BlobStore, ObjectStore,
    bucket::{Bucket as _, SharedRuntime},
    lease::{LeaseLog, StoreClock},
    location::StoreLocation,
};

/// Opens a store in memory and a store in a directory. The directory is removed when its handle is dropped.
fn stores() -> Vec<(BlobStore, Option<tempfile::TempDir>)> {
    let dir = tempdir().unwrap();
    let file = BlobStore::open(&format!("file://{}/blobs", dir.path().display())).unwrap();
    let memory = BlobStore::open(&format!("memory://{}/deep/prefix", SessionId::random())).unwrap();
    vec![(memory, None), (file, Some(dir))]
}

#[test]
fn a_blob_is_written_once_read_and_deleted() {
    for (blobs, _dir) in stores() {
        block_on(async {
            let name = "sessions/a/1-ab";
            assert_eq!(blobs.get(name, 5).await.unwrap(), None);
            blobs.put(name, b"first".as_slice()).await.unwrap();
            blobs.put(name, b"first".as_slice()).await.unwrap();
            for other in ["other", "longer than it is", "f", ""] {
                let error = blobs.put(name, other).await.unwrap_err();
                assert!(matches!(error, BlobError::Exists { .. }), "{other}: {error}");
            }
            assert_eq!(blobs.get(name, 5).await.unwrap().as_deref(), Some(b"first".as_slice()));
            let error = blobs.get(name, 4).await.unwrap_err();
            assert!(matches!(error, BlobError::TooLarge { bytes: 5, max: 4, .. }), "{error}");
            blobs.put("sessions/a/2-cd", Vec::new()).await.unwrap();
            assert_eq!(blobs.get("sessions/a/2-cd", 0).await.unwrap().as_deref(), Some(b"".as_slice()));
            blobs.delete(name).await.unwrap();
            blobs.delete(name).await.unwrap();
            assert_eq!(blobs.get(name, 5).await.unwrap(), None);
            blobs.put(name, b"other".as_slice()).await.unwrap();
        });
    }
}

#[test]
fn listing_pages_are_ordered_and_complete() {
    for (blobs, _dir) in stores() {
        block_on(async {
            let mut expected = Vec::new();
            for id in ["a", "a-b", "a.c", "b"] {
                for n in 0..3 {
                    expected.push(format!("s/{id}!/{n}"));
                }
            }
            for name in expected.iter().rev() {
                blobs.put(name, name.clone().into_bytes()).await.unwrap();
            }
            blobs.put("other/x", Vec::new()).await.unwrap();
            for limit in [1, 4, 5, 11, 12, 13, usize::MAX] {
                let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
                loop {
                    let page = blobs.list("s", after.as_deref(), limit).await.unwrap();
                    assert!(page.blobs.len() <= limit);
                    assert!(page.blobs.iter().all(|blob| blob.bytes == blob.name.len() as u64));
                    found.extend(page.blobs.into_iter().map(|blob| blob.name));
                    pages += 1;
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(found, expected, "{limit}");
                assert_eq!(pages, expected.len().div_ceil(limit), "{limit}");
            }
            let one = blobs.list("s/a!", None, 100).await.unwrap();
            assert_eq!(one.blobs.len(), 3, "a prefix matches only whole name parts");
            assert_eq!(blobs.list("nothing", None, 100).await.unwrap().blobs, []);
            let all = blobs.list("", None, 100).await.unwrap().blobs;
            assert_eq!((all.len(), all[0].name.as_str()), (expected.len() + 1, "other/x"));
        });
    }
}

#[test]
fn one_of_many_writers_creates_a_blob() {
    for (blobs, _dir) in stores() {
        for round in 0..20 {
            let name = format!("race/{round}");
            let won: Vec<u8> = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..8_u8)
                    .map(|writer| {
                        let (blobs, name) = (&blobs, &name);
                        scope.spawn(move || block_on(blobs.put(name, vec![writer])).is_ok().then_some(writer))
                    })
                    .collect();
                writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
            });
            assert_eq!(won.len(), 1, "{round}");
            assert_eq!(block_on(blobs.get(&name, 1)).unwrap().unwrap(), won);
        }
    }
}

#[test]
fn blob_names_stay_inside_the_directory() {
    let longest = "x".repeat(BlobStore::MAX_NAME_BYTES);
    for (blobs, _dir) in stores() {
        // The last name consists of one part of maximum length.
        for name in ["a", "b/b!/c.d-e_f", "..a", &longest[..240]] {
            block_on(blobs.put(name, Vec::new())).unwrap();
        }
        let (over, over_part) = (format!("{longest}x"), &longest[..241]);
        for name in
            ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a b", "a\0", "é", "a%2fb", "a#1", "~", &over, over_part]
        {
            for error in [
                block_on(blobs.put(name, Vec::new())).unwrap_err(),
                block_on(blobs.get(name, 1)).unwrap_err(),
                block_on(blobs.delete(name)).unwrap_err(),
                block_on(blobs.list("a", Some(name), 1)).unwrap_err(),
            ] {
                assert!(matches!(error, BlobError::Name { .. }), "{name}: {error}");
            }
        }
    }
}

#[test]
fn oversized_blob_is_not_read() {
    let dir = tempdir().unwrap();
    let blobs = BlobStore::open(&format!("file://{}", dir.path().display())).unwrap();
    // The files are sparse and take no disk space.
    let hole = |name: &str, bytes| fs::File::create(dir.path().join(name)).unwrap().set_len(bytes).unwrap();
    hole("over", BlobStore::MAX_BYTES + 1);
    let error = block_on(blobs.get("over", u64::MAX)).unwrap_err();
    assert!(matches!(error, BlobError::TooLarge { bytes, .. } if bytes == BlobStore::MAX_BYTES + 1), "{error}");
    block_on(blobs.delete("over")).unwrap();
    assert_eq!(block_on(blobs.get("over", u64::MAX)).unwrap(), None);
}

#[test]
fn store_directory_is_private() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("blobs");
    let url = format!("file://{}", path.display());
    BlobStore::open(&url).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(BlobStore::open(&url).unwrap_err(), StoreError::Directory(_)));
}

#[test]
fn memory_stores_with_one_name_are_shared() {
    let name = SessionId::random();
    let open = |prefix: &str| BlobStore::open(&format!("memory://{name}{prefix}")).unwrap();
    let (one, other) = (open("/x"), open(""));
    block_on(one.put("a", b"1".as_slice())).unwrap();
    assert_eq!(block_on(other.get("x/a", 1)).unwrap().as_deref(), Some(b"1".as_slice()));
    drop((one, other));
    assert_eq!(block_on(open("/x").get("a", 1)).unwrap(), None, "the memory was freed with the last store");
}

#[test]
fn invalid_store_url_error_lists_the_schemes() {
    for url in
        ["", "sessions", "http://example.com/x", "ftp://x/y", "s3://b/p?x=1", "s3://b/p#x", "file://host/x", "s3:///x"]
    {
        let error = BlobStore::open(url).unwrap_err();
        assert!(matches!(error, StoreError::Url { .. }), "{url}: {error}");
        assert!(error.to_string().contains("s3://BUCKET/PREFIX"), "{error}");
    }
    for url in [
        "s3://me:secret@bucket/p",
        "s3://me:secret@bucket?x",
        "s3://me:secret@bucket:port/",
        "az://container/p?sv=1&sig=secret",
        "az://container/p#secret",
        "me:secret@bucket",
    ] {
        let error = BlobStore::open(url).unwrap_err();
        assert!(!glovebox::with_causes(&error).contains("secret"), "{error}");
    }
}

#[test]
fn debug_output_hides_stored_data() {
    let blobs = BlobStore::open(&format!("memory://{}", SessionId::random())).unwrap();
    block_on(blobs.put("a", b"held".as_slice())).unwrap();
    let shown = format!("{blobs:?}");
    assert!(shown.contains("memory://") && !shown.contains("Memory") && !shown.contains("104, 101"), "{shown}");
}

#[test]
fn old_temporary_files_are_removed() {
    let dir = tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let blobs = BlobStore::open(&url).unwrap();
    block_on(blobs.put("sessions/a", b"x".as_slice())).unwrap();
    let (old, new) = (dir.path().join("sessions/b#1"), dir.path().join("sessions/c#2"));
    for file in [&old, &new] {
        fs::write(file, "half").unwrap();
    }
    let hours_ago = std::time::SystemTime::now() - Duration::from_secs(2 * 60 * 60);
    for file in [&old, &dir.path().join("sessions/a")] {
        fs::File::options().write(true).open(file).unwrap().set_modified(hours_ago).unwrap();
    }
    let again = BlobStore::open(&url).unwrap();
    assert!(!old.exists() && new.exists(), "only old temporary files are removed");
    assert!(block_on(again.get("sessions/a", 1)).unwrap().is_some());
}

#[test]
fn listing_skips_foreign_names() {
    let background = SharedRuntime::get().unwrap();
    let url = format!("memory://{}", SessionId::random());
    let place = StoreLocation::of(&url, background.handle().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for number in 0..2_500 {
            let name = Path::parse(format!("records/a!/~{number:04}")).unwrap();
            place.store.put(&name, PutPayload::from_static(b"x")).await.unwrap();
        }
    });
    let store = block_on(ObjectStore::open(&url)).unwrap();
    assert_eq!(block_on(store.count(usize::MAX)).unwrap(), 0);
    assert!(block_on(store.list(&PageRequest::default())).unwrap().entries.is_empty());
}

#[test]
fn futures_can_block_inside_a_runtime() {
    let (blobs, _) = stores().remove(0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        blobs.put("a", b"x".as_slice()).await.unwrap();
        // Drop the store's last handle inside a runtime.
        drop(blobs);
    });
}

const LASTS: Duration = Duration::from_secs(15);
const HOUR_MS: i64 = 3_600_000;

fn log(run: &Run) -> LeaseLog {
    LeaseLog::new(Arc::clone(&run.memory) as _, LASTS, &SessionId::new("a").unwrap())
}

fn clock(run: &Run) -> StoreClock {
    StoreClock { seen_ms: *run.memory.now_ms.lock().unwrap(), seen_at: Instant::now() }
}

/// Acquires and releases the lease `times` times.
fn holder<'a>(run: &'a Run, times: usize, held: &'a Cell<bool>, taken: &'a Cell<usize>) -> Task<'a> {
    Box::pin(async move {
        for _ in 0..times {
            let log = log(run);
            if let Some(number) = log.take(clock(run)).await.unwrap() {
                assert!(!held.replace(true), "two holders have the lease");
                taken.set(taken.get() + 1);
                // Other tasks can run before the deletion, but not between the deletion and the update of `held`.
                log.delete(number).await;
                held.set(false);
            }
        }
    })
}

/// Renews a lease that expired an hour ago, like a process that was frozen for an hour.
fn frozen<'a>(log: &'a LeaseLog, held: &'a Cell<bool>, renewed: &'a Cell<usize>) -> Task<'a> {
    Box::pin(async move {
        if let Some(number) = log.renew_entry(1).await.unwrap() {
            assert!(!held.replace(true), "two holders have the lease");
            renewed.set(renewed.get() + 1);
            log.delete(number).await;
            held.set(false);
        }
    })
}

/// Runs several holders concurrently. `times` contains the number of times that each holder acquires the lease. With
/// `was_killed`, another holder was killed an hour earlier.
fn contend(switches: usize, times: &[usize], was_killed: bool) {
    let runs = exhaustively(0, |run| {
        if was_killed {
            assert_eq!(block_on(log(run).take(clock(run))).unwrap(), Some(1));
            assert_eq!(block_on(log(run).take(clock(run))).unwrap(), None, "the lease has not expired");
            *run.memory.now_ms.lock().unwrap() += HOUR_MS;
        }
        let (held, taken) = (Cell::new(false), Cell::new(0));
        run.interleave(switches, times.iter().map(|times| holder(run, *times, &held, &taken)).collect());
        // Late holders leave no objects behind.
        assert!(block_on(log(run).take(clock(run))).unwrap().is_some());
        if !was_killed {
            assert!(taken.get() > 0);
        }
    });
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn one_of_two_holds_the_lease() {
    contend(6, &[3, 3], false);
}

#[test]
fn one_of_three_holds_the_lease() {
    contend(4, &[1, 2, 2], false);
}

#[test]
fn one_of_two_takes_over_a_killed_holders_lease() {
    contend(6, &[1, 3], true);
}

#[test]
fn one_of_three_takes_over_a_killed_holders_lease() {
    contend(4, &[1, 2, 1], true);
}

#[test]
fn frozen_holder_and_successor_never_both_hold_the_lease() {
    for (switches, times) in [(6, &[3][..]), (5, &[2, 1])] {
        let (renewed, taken) = (Cell::new(0), Cell::new(0));
        let runs = exhaustively(0, |run| {
            let first = log(run);
            assert_eq!(block_on(first.take(clock(run))).unwrap(), Some(1));
            *run.memory.now_ms.lock().unwrap() += HOUR_MS;
            let held = Cell::new(false);
            let others = times.iter().map(|times| holder(run, *times, &held, &taken));
            run.interleave(switches, others.chain([frozen(&first, &held, &renewed)]).collect());
            assert!(block_on(log(run).take(clock(run))).unwrap().is_some(), "a late holder left an object behind");
        });
        assert!(runs > 1_000 && renewed.get() > 10 && taken.get() > 10, "{runs} {} {}", renewed.get(), taken.get());
    }
}

#[test]
fn lease_number_overflow_names_the_directory() {
    exhaustively(0, |run| {
        block_on(run.memory.try_create(&format!("leases/a!/{}", u64::MAX), "x 1".into())).unwrap();
        *run.memory.now_ms.lock().unwrap() += HOUR_MS;
        let error = block_on(log(run).take(clock(run))).unwrap_err().to_string();
        assert!(error.contains("leases/a!"), "{error}");
    });
}
