//! Processes killed at random points leave either nothing usable or complete files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use glovebox_runtimes::{ArtefactKey, CacheDir, CacheKind, Eviction, Fetcher, KeyParts, Quiet, RuntimeError, Runtimes};

use crate::smoke::Random;
use crate::support::{CHILD, World, artefact, child, key, manifest, parts, pinned};

/// Long enough for a kill to hit the middle of a write.
const CODE_BYTES: usize = 300_000;

/// Not a test by itself: fetches, stores, replaces, evicts and removes until it is killed.
#[test]
fn child_writes_until_killed() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let dir = Path::new(&dir);
    let pip = Fetcher::with_commands(vec![vec!["/bin/sh".into(), dir.join("pip").into()]]);
    let runtimes =
        Runtimes::new(manifest(&pinned()), CacheDir::open_sealed(dir.join("cache"), dir.join("seals")).unwrap())
            .with_fetcher(pip);
    let entry = runtimes.manifest().find("fake").unwrap();
    for round in std::process::id().. {
        runtimes.prepared().store(&key(), &artefact(vec![u8::try_from(round % 251).unwrap(); CODE_BYTES])).unwrap();
        runtimes.fetch(entry, &Quiet).unwrap();
        runtimes.remove(entry).unwrap();
        let other = ArtefactKey::new(KeyParts { label: format!("other-{}", round % 3), ..parts() });
        runtimes.prepared().store(&other, &artefact(vec![7; CODE_BYTES])).unwrap();
        runtimes
            .evict(&CacheKind::ALL, &Eviction { max_bytes: Some(0), keep: Some(&key()), ..Eviction::default() })
            .unwrap();
        if round % 5 == 0 {
            runtimes.prepared().remove(&key().parts().runtime).unwrap();
        }
    }
}

#[test]
fn killed_at_any_point_leaves_nothing_usable_or_everything() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    let mut random = Random::from_environment();
    let (mut kills, mut whole) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let mut child = child("crash::child_writes_until_killed", world.dir.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(3_000 + random.below(40_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;

        if let Some(artefact) = runtimes.prepared().open(&key()).unwrap() {
            runtimes.prepared().verify(&artefact).unwrap();
            assert_eq!(artefact.aot_bytes, u64::try_from(CODE_BYTES).unwrap());
            whole += 1;
        }
        match runtimes.load(entry) {
            Ok(_) | Err(RuntimeError::Missing { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert!(kills > 10 && whole > 0, "{kills} kills, {whole} whole");

    // The last process has started a grandchild, which holds its lock until it ends.
    std::thread::sleep(Duration::from_secs(1));
    // The locks of killed processes are free, and their leftovers are removed once they are old.
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    for dir in ["binaries", "prepared"] {
        for name in world.files(dir).iter().filter(|name| name.starts_with(".tmp-")) {
            fs::File::open(world.path("cache").join(dir).join(name)).unwrap().set_modified(old).unwrap();
        }
    }
    runtimes.remove(entry).unwrap();
    let evicted = runtimes.evict(&CacheKind::ALL, &Eviction { max_bytes: Some(0), ..Eviction::default() }).unwrap();
    assert!(evicted.in_use.is_empty(), "{evicted:?}");
    assert_eq!((world.files("prepared").len(), world.files("locks").len()), (0, 0));
    runtimes.load_or_fetch(entry, &Quiet).unwrap();
    runtimes.prepared().open_or_build(&key(), &Quiet, || Ok::<_, String>(artefact(vec![1]))).unwrap();
    assert_eq!((world.files("binaries").len(), world.files("prepared").len()), (1, 2));
}
