//! Tests that eviction by age and by size works, and never removes entries in use.

use std::{
    fs,
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant, SystemTime},
};

use glovebox_runtimes::{
    ArtefactKey, CacheDir, CacheError, CacheKind, Eviction, EvictionReport, KeyParts, NoProgress, Progress, Runtimes,
};

use crate::support::{CHILD, World, artefact, child, chmod, key, parts, pinned};

const HOUR: Duration = Duration::from_secs(3600);

fn named(label: &str) -> ArtefactKey {
    ArtefactKey::new(KeyParts { label: label.into(), ..parts() })
}

/// Stores an image of a million bytes that was last used `hours` hours ago.
fn store(world: &World, label: &str, hours: u32) -> ArtefactKey {
    let key = named(label);
    world.runtimes().prepared().store(&key, &artefact(vec![0; 1_000_000])).unwrap();
    let record = world.path("cache/prepared").join(format!("{key}.json"));
    fs::File::open(record).unwrap().set_modified(SystemTime::now() - HOUR * hours).unwrap();
    key
}

fn labels(runtimes: &Runtimes) -> String {
    runtimes.prepared().list().unwrap().into_iter().map(|listed| listed.parts.label).collect()
}

fn evict(runtimes: &Runtimes, eviction: &Eviction<'_>) -> EvictionReport {
    runtimes.evict(&CacheKind::ALL, eviction).unwrap()
}

fn names(evicted: &EvictionReport) -> String {
    evicted.removed.iter().map(|entry| entry.name.split('-').next().unwrap()).collect()
}

#[test]
fn least_recently_used_entries_are_evicted() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let [_, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(label, hours)| store(&world, label, hours));
    let all: u64 = runtimes.cached(&CacheKind::ALL).unwrap().iter().map(|entry| entry.bytes).sum();
    let bytes = |max_bytes| Eviction { max_bytes: Some(max_bytes), ..Eviction::default() };
    // Limits at or above the total size evict nothing.
    assert_eq!(evict(&runtimes, &bytes(all + 1)), EvictionReport::default());
    assert_eq!(evict(&runtimes, &bytes(all)), EvictionReport::default());
    // `c` is the least recently used until `open_or_build` uses it. `open` does not update the time of use.
    runtimes.prepared().open(&b).unwrap().unwrap();
    let built = runtimes.prepared().open_or_build(&c, &NoProgress, || Err("the image exists"));
    assert_eq!(built.unwrap().aot_bytes, 1_000_000);
    assert_eq!(names(&evict(&runtimes, &bytes(all - 1))), "b");
    assert_eq!(labels(&runtimes), "ac");
    // An entry that `keep` protects stays even if it exceeds the limit by itself.
    assert_eq!(names(&evict(&runtimes, &Eviction { keep: Some(&c), ..bytes(0) })), "a");
    assert_eq!(labels(&runtimes), "c");
    assert_eq!(names(&evict(&runtimes, &bytes(0))), "c");
    assert_eq!((world.files("prepared").len(), world.files("locks").len()), (0, 0));
}

#[test]
fn unused_entries_expire_by_age() {
    let world = World::new("");
    let runtimes = world.runtimes();
    for (label, hours) in [("a", 1), ("b", 2), ("c", 3)] {
        store(&world, label, hours);
    }
    let age = |max_age| Eviction { max_age: Some(max_age), ..Eviction::default() };
    assert_eq!(names(&evict(&runtimes, &age(HOUR * 4))), "");
    let planned = evict(&runtimes, &Eviction { dry_run: true, ..age(HOUR * 2) });
    assert_eq!((names(&planned).as_str(), labels(&runtimes).as_str()), ("cb", "abc"));
    assert_eq!(evict(&runtimes, &age(HOUR * 2)), planned);
    assert_eq!(labels(&runtimes), "a");
    // An entry with a time in the future, for example after the clock was set back, has age zero.
    let record = world.path("cache/prepared").join(format!("{}.json", named("a")));
    fs::File::open(record).unwrap().set_modified(SystemTime::now() + HOUR * 1000).unwrap();
    assert_eq!(evict(&runtimes, &age(Duration::from_secs(1))), EvictionReport::default());
}

#[test]
fn eviction_is_limited_to_the_requested_kind() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let key = named("a");
    for store in [runtimes.prepared(), runtimes.modules(), runtimes.components()] {
        store.store(&key, &artefact(vec![0; 1000])).unwrap();
    }
    fs::create_dir_all(world.path("cache/binaries")).unwrap();
    fs::write(world.path("cache/binaries/some.wasm"), "x").unwrap();
    let nothing = Eviction { max_bytes: Some(0), ..Eviction::default() };
    let went = runtimes.evict(&[CacheKind::Components, CacheKind::Binaries], &nothing).unwrap();
    assert_eq!(went.removed.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [CacheKind::Components]);
    // `keep` protects the module and the image with the same key.
    assert_eq!(evict(&runtimes, &Eviction { keep: Some(&key), ..nothing }), EvictionReport::default());
    let left: Vec<_> = runtimes.cached(&CacheKind::ALL).unwrap().into_iter().map(|entry| entry.kind).collect();
    assert!(
        [CacheKind::Binaries, CacheKind::Images, CacheKind::Modules].iter().all(|kind| left.contains(kind))
            && left.len() == 3,
        "{left:?}"
    );
}

/// A helper process for other tests, not a test. Uses an image until it is killed.
#[test]
fn child_uses_an_image() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let world = std::path::Path::new(&dir);
    let runtimes = Runtimes::new(
        crate::support::manifest(&pinned()),
        CacheDir::open_sealed(world.join("cache"), world.join("seals")).unwrap(),
    );
    let _used = runtimes.prepared().open(&named("a")).unwrap().unwrap();
    fs::write(world.join("up"), "").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn entries_of_other_processes_stay_until_they_end() {
    let world = World::new("");
    let runtimes = world.runtimes();
    store(&world, "a", 1000);
    let mut user = child("eviction::child_uses_an_image", world.dir.path()).stderr(Stdio::null()).spawn().unwrap();
    while !world.path("up").exists() {
        assert!(user.try_wait().unwrap().is_none(), "the child has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let everything = Eviction { max_age: Some(HOUR), max_bytes: Some(0), ..Eviction::default() };
    let evicted = evict(&runtimes, &everything);
    assert_eq!((names(&evicted).as_str(), evicted.in_use.len()), ("", 1));
    assert!(runtimes.cached(&[CacheKind::Images]).unwrap()[0].in_use);
    assert_eq!(labels(&runtimes), "a");
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(!runtimes.cached(&[CacheKind::Images]).unwrap()[0].in_use);
    assert_eq!(names(&evict(&runtimes, &everything)), "a");
}

#[test]
fn entries_under_construction_are_kept() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let key = store(&world, "a", 1000);
    let everything = Eviction { max_bytes: Some(0), ..Eviction::default() };
    let held = world.cache().lock(&key.to_string(), &NoProgress).unwrap();
    assert_eq!(evict(&runtimes, &everything).in_use.len(), 1);
    drop(held);
    assert_eq!(names(&evict(&runtimes, &everything)), "a");
}

#[test]
fn files_of_killed_processes_and_old_versions_are_evicted() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let key = store(&world, "a", 0);
    let at = |name: &str| world.path("cache/prepared").join(name);
    // Code without a record and a record without code, as killed processes may leave them. Also a record in an unknown
    // format, and a file of another program.
    fs::write(at("b-0011-22.cwasm"), "code").unwrap();
    fs::write(at("c-0011.json"), "{}").unwrap();
    fs::write(at("notes.txt"), "mine").unwrap();
    fs::write(world.path("cache/locks/d-0011.lock"), "").unwrap();
    let everything = Eviction { max_bytes: Some(0), keep: Some(&key), ..Eviction::default() };
    let mut went: Vec<_> = evict(&runtimes, &everything).removed.into_iter().map(|entry| entry.name).collect();
    went.sort();
    assert_eq!(went, ["b-0011", "c-0011"]);
    assert_eq!((world.files("prepared").len(), world.files("locks").len()), (3, 0));
    runtimes.prepared().open(&key).unwrap().unwrap();
}

#[test]
fn concurrent_build_and_eviction_never_fail() {
    let world = World::new("");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..4u8)
            .map(|thread| {
                let world = &world;
                scope.spawn(move || {
                    let runtimes = world.runtimes();
                    for round in 0..40u8 {
                        let value = (round + thread) % 3;
                        let key = named(["x", "y", "z"][usize::from(value)]);
                        let build = || Ok::<_, String>(artefact(vec![value; 10_000]));
                        let mut artefact = runtimes.prepared().open_or_build(&key, &NoProgress, build).unwrap();
                        let mut code = Vec::new();
                        artefact.aot.read_to_end(&mut code).unwrap();
                        assert_eq!(code, vec![value; 10_000]);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let runtimes = world.runtimes();
                while !stop.load(Ordering::Relaxed) {
                    evict(&runtimes, &Eviction { max_bytes: Some(0), ..Eviction::default() });
                    runtimes.cached(&CacheKind::ALL).unwrap();
                }
            });
        }
        for user in users {
            user.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    evict(&world.runtimes(), &Eviction { max_bytes: Some(0), ..Eviction::default() });
    assert_eq!((world.files("prepared").len(), world.files("locks").len()), (0, 0));
}

#[test]
fn a_new_cache_is_private() {
    let world = World::new("");
    let cache = CacheDir::open(world.path("a/b/cache/")).unwrap();
    for dir in ["a", "a/b", "a/b/cache"] {
        assert_eq!(fs::metadata(world.path(dir)).unwrap().permissions().mode() & 0o777, 0o700, "{dir}");
    }
    assert_eq!(cache.path(), world.path("a/b/cache"));
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let world = World::new("");
    world.cache();
    for mode in [0o777, 0o770, 0o720, 0o702] {
        chmod(&world.path("cache"), mode);
        let error = CacheDir::open(world.path("cache")).unwrap_err();
        assert!(matches!(error, CacheError::Writable { .. }), "{mode:o}: {error}");
        let text = error.to_string();
        let path = world.path("cache").display().to_string();
        assert!(text.contains(&format!("`{path}`")) && text.contains(&format!("mode {mode:04o}")), "{text}");
        assert!(text.contains(&format!("`chmod go-w {path}`")), "{text}");
    }
    for mode in [0o700, 0o755] {
        chmod(&world.path("cache"), mode);
        CacheDir::open(world.path("cache")).unwrap();
    }
}

#[test]
fn link_instead_of_the_cache_is_rejected() {
    let world = World::new("");
    world.cache();
    symlink(world.path("cache"), world.path("link")).unwrap();
    for path in ["link", "link/", "link/."] {
        let error = CacheDir::open(world.path(path)).unwrap_err();
        assert!(matches!(error, CacheError::Symlink { .. }), "{path}: {error}");
    }
    symlink(world.path("nowhere"), world.path("dangling")).unwrap();
    CacheDir::open(world.path("dangling")).unwrap_err();
    fs::write(world.path("file"), "").unwrap();
    let error = CacheDir::open(world.path("file")).unwrap_err();
    assert!(matches!(error, CacheError::NotADirectory { .. }), "{error}");
}

#[test]
fn a_subdirectory_that_others_can_write_is_refused() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    assert!(!runtimes.present(entry).unwrap());
    assert!(runtimes.prepared().open(&key()).unwrap().is_none());
    chmod(&world.path("cache/binaries"), 0o777);
    chmod(&world.path("cache/prepared"), 0o777);
    assert!(runtimes.present(entry).unwrap_err().to_string().contains("chmod go-w"));
    assert!(runtimes.prepared().open(&key()).unwrap_err().to_string().contains("chmod go-w"));
}

#[test]
fn a_file_that_others_can_write_is_refused_before_it_is_read() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    runtimes.present(entry).unwrap();
    let path = runtimes.path(entry);
    fs::write(&path, pinned()).unwrap();
    chmod(&path, 0o664);
    let error = runtimes.load(entry).unwrap_err().to_string();
    assert!(error.contains("0664") && error.contains(&path.display().to_string()), "{error}");
    chmod(&path, 0o600);
    runtimes.load(entry).unwrap();

    let stored = runtimes.prepared().store(&key(), &artefact(vec![7; 100])).unwrap();
    for (path, mode) in [(stored.aot_path.clone(), 0o622), (stored.aot_path.clone(), 0o620)] {
        chmod(&path, mode);
        let error = runtimes.prepared().open(&key()).unwrap_err().to_string();
        assert!(error.contains(&format!("{mode:04o}")), "{error}");
        chmod(&path, 0o600);
    }
    runtimes.prepared().open(&key()).unwrap().unwrap();
}

#[test]
fn link_or_pipe_instead_of_a_file_is_rejected() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    runtimes.present(entry).unwrap();
    fs::write(world.path("elsewhere"), pinned()).unwrap();
    symlink(world.path("elsewhere"), runtimes.path(entry)).unwrap();
    let error = runtimes.load(entry).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    fs::remove_file(runtimes.path(entry)).unwrap();

    // Opening a FIFO would block until another process opens it for writing.
    let made = std::process::Command::new("mkfifo").arg(runtimes.path(entry)).status().unwrap();
    assert!(made.success());
    let error = runtimes.load(entry).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn a_file_of_another_user_is_refused() {
    let world = World::new("");
    world.cache();
    // Only root can change a file's owner.
    if std::os::unix::fs::chown(world.path("cache"), Some(12_345), None).is_err() {
        return;
    }
    let error = CacheDir::open(world.path("cache")).unwrap_err();
    assert!(matches!(error, CacheError::Owner { owner: 12_345, .. }), "{error}");
    assert!(error.to_string().contains("`chown"), "{error}");
}

#[test]
fn waiting_for_a_lock_can_be_cancelled() {
    struct CancelledProgress;
    impl Progress for CancelledProgress {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let world = World::new("");
    let cache = world.cache();
    let held = cache.lock("x/../y", &NoProgress).unwrap();
    let error = cache.lock("x/../y", &CancelledProgress).unwrap_err();
    assert!(matches!(error, CacheError::Cancelled { .. }), "{error}");
    let other = cache.lock("other", &CancelledProgress).unwrap();
    assert_eq!(world.files("locks"), ["other.lock", "x_.._y.lock"]);
    drop((held, other));
    // Wait for the lock. A child process of another test shares the lock's file descriptor until it calls `exec`.
    cache.lock("x/../y", &NoProgress).unwrap();
    assert_eq!(world.files("locks"), [""; 0], "locks leave no files");
}

#[test]
fn only_long_waits_for_a_lock_are_reported() {
    struct CancelAt {
        until: Instant,
        messages: AtomicU32,
    }
    impl Progress for CancelAt {
        fn message(&self, _text: &str) {
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        fn cancelled(&self) -> bool {
            Instant::now() >= self.until
        }
    }
    let world = World::new("");
    let cache = world.cache();
    let _held = cache.lock("x", &NoProgress).unwrap();
    for (ms, reported) in [(100, 0), (1_500, 1)] {
        let waiting = CancelAt { until: Instant::now() + Duration::from_millis(ms), messages: AtomicU32::new(0) };
        cache.lock("x", &waiting).unwrap_err();
        assert_eq!(waiting.messages.into_inner(), reported, "{ms}");
    }
}
