//! Tests that prepared images are stored atomically, and found only under their own key.

use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant, SystemTime},
};

use glovebox_runtimes::{
    ArtefactKey, BuildError, CacheDir, CacheKind, Digest, Eviction, Fetcher, KeyParts, NoProgress, PreparedError,
    RuntimeError, Runtimes,
};

use crate::{
    smoke::Random,
    support::{CHILD, World, artefact, child, chmod, key, manifest, parts, pinned},
};

#[test]
fn stored_image_is_found() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    assert!(store.open(&key()).unwrap().is_none());
    let new = artefact(b"native code".to_vec());
    let stored = store.store(&key(), &new).unwrap();
    assert_eq!(stored.aot_bytes, 11);
    let mut found = runtimes.prepared().open(&key()).unwrap().unwrap();
    let mut code = Vec::new();
    found.aot.read_to_end(&mut code).unwrap();
    assert_eq!((code, &found.record), (new.aot, &new.record));
    store.verify(&found).unwrap();
    let name = found.aot_path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("fake-1.0-") && name.ends_with(".cwasm"), "{name}");
}

#[test]
fn different_keys_share_no_image() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    store.store(&key(), &artefact(vec![1])).unwrap();
    let other = |change: &dyn Fn(&mut KeyParts)| {
        let mut parts = parts();
        change(&mut parts);
        ArtefactKey::new(parts)
    };
    let changes: [&dyn Fn(&mut KeyParts); 6] = [
        &|p| p.label.push('x'),
        &|p| p.runtime = Digest::of(b"other"),
        &|p| p.recipe = Digest::of(b"other"),
        &|p| p.wasmtime.push('x'),
        &|p| p.settings.push('x'),
        &|p| p.target.push('x'),
    ];
    for change in changes {
        assert!(store.open(&other(change)).unwrap().is_none());
    }
    let moved = other(&|p| (p.settings, p.target) = ("fuelm".to_owned(), "achine".to_owned()));
    assert!(store.open(&moved).unwrap().is_none());
    // Use two labels that are the same in file names.
    let (a, b) = (other(&|p| p.label = "a/b".to_owned()), other(&|p| p.label = "a b".to_owned()));
    store.store(&a, &artefact(vec![2])).unwrap();
    assert!(store.open(&b).unwrap().is_none());
    let odd = other(&|p| p.label = format!("../.{}", "é".repeat(500)));
    store.store(&odd, &artefact(vec![3])).unwrap();
    assert!(store.open(&odd).unwrap().is_some());
    // A renamed record does not produce an image for another key.
    let names = world.files("prepared");
    let record = |start: &str| names.iter().find(|n| n.starts_with(start) && n.ends_with(".json")).unwrap().clone();
    let dir = world.path("cache/prepared");
    fs::copy(dir.join(record("a_b")), dir.join(record("fake-1.0"))).unwrap();
    assert!(store.open(&key()).unwrap().is_none());
}

#[test]
fn partial_image_is_ignored_and_truncated_image_rejected() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let stored = store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    let record = fs::read_dir(world.path("cache/prepared")).unwrap();
    let record = record.map(|e| e.unwrap().path()).find(|p| p.extension().unwrap() == "json").unwrap();
    let text = fs::read(&record).unwrap();

    for broken in [&b""[..], b"{", b"null", &text[..text.len() / 2], &[0xff; 100], &vec![b'['; 3 << 20]] {
        fs::write(&record, broken).unwrap();
        assert!(store.open(&key()).unwrap().is_none());
        assert_eq!(store.list().unwrap(), []);
    }
    let text = String::from_utf8(text).unwrap();
    for (from, to) in
        [("\"format\": 2", "\"format\": 1"), ("\"aot_file\": \"", "\"aot_file\": \"../binaries/"), (".cwasm", ".json")]
    {
        assert!(text.contains(from));
        fs::write(&record, text.replacen(from, to, 1)).unwrap();
        assert!(store.open(&key()).unwrap().is_none(), "{to}");
    }
    fs::write(&record, &text).unwrap();
    store.open(&key()).unwrap().unwrap();

    for bytes in [0, 4095, 4097] {
        fs::File::options().write(true).open(&stored.aot_path).unwrap().set_len(bytes).unwrap();
        let error = store.open(&key()).unwrap_err();
        assert!(matches!(error, PreparedError::Corrupt { .. }));
        let error = error.to_string();
        assert!(error.contains("expected 4096 bytes") && error.contains(&format!("got {bytes} bytes")), "{error}");
    }
    // Storing the image again repairs it.
    store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    store.verify(&store.open(&key()).unwrap().unwrap()).unwrap();
    fs::remove_file(&stored.aot_path).unwrap();
    assert!(store.open(&key()).unwrap().is_none());
}

#[test]
fn verification_detects_a_changed_byte() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let stored = store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    let mut bytes = vec![9; 4096];
    bytes[77] = 8;
    fs::write(&stored.aot_path, &bytes).unwrap();
    let error = store.verify(&stored).unwrap_err().to_string();
    assert!(error.contains(&Digest::of(&[9; 4096]).to_string()), "{error}");
    assert!(error.contains(&Digest::of(&bytes).to_string()), "{error}");
}

/// Changes a file like an attacker with write access: restores its modification time afterwards.
fn rewrite(path: &Path, bytes: &[u8]) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    chmod(path, 0o600);
    fs::write(path, bytes).unwrap();
    chmod(path, 0o400);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn changed_image_with_old_size_and_time_is_detected() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let stored = store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    assert_eq!(fs::metadata(&stored.aot_path).unwrap().permissions().mode() & 0o7777, 0o400);
    let mut bytes = vec![9; 4096];
    bytes[77] = 8;
    rewrite(&stored.aot_path, &bytes);
    for _ in 0..2 {
        let error = store.open(&key()).unwrap_err();
        assert!(matches!(error, PreparedError::Corrupt { .. }));
        let error = error.to_string();
        assert!(error.contains(&Digest::of(&[9; 4096]).to_string()), "{error}");
        assert!(error.contains(&Digest::of(&bytes).to_string()), "{error}");
    }
    // A file with restored bytes is valid again.
    rewrite(&stored.aot_path, &[9; 4096]);
    store.open(&key()).unwrap().unwrap();
}

#[test]
fn unchanged_image_is_resealed() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let stored = store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    let seal = || {
        let mut names = world.files("../seals");
        names.retain(|name| name.ends_with(".json"));
        assert_eq!(names.len(), 1);
        fs::read(world.path("seals").join(&names[0])).unwrap()
    };
    let first = seal();
    store.open_or_build::<()>(&key(), &NoProgress, || unreachable!("the image exists")).unwrap();
    assert_eq!(seal(), first, "using an image must not change its seal");

    // Create a second name, as a backup does. Then change the mode. Then put the same bytes into a new file.
    let changes: [&dyn Fn(); 3] = [
        &|| fs::hard_link(&stored.aot_path, world.path("backup")).unwrap(),
        &|| chmod(&stored.aot_path, 0o600),
        &|| {
            fs::copy(&stored.aot_path, world.path("copy")).unwrap();
            fs::rename(world.path("copy"), &stored.aot_path).unwrap();
        },
    ];
    for change in changes {
        let before = seal();
        change();
        let mut found = store.open(&key()).unwrap().unwrap();
        let mut code = Vec::new();
        found.aot.read_to_end(&mut code).unwrap();
        assert_eq!(code, [9; 4096], "the file must be at its beginning after hashing");
        assert_ne!(seal(), before);
    }
    store.remove(&parts().runtime).unwrap();
    assert_eq!(world.files("../seals"), ["since"]);
}

#[test]
fn code_with_a_forged_record_is_not_loaded() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let stored = store.store(&key(), &artefact(vec![9; 4096])).unwrap();
    let (genuine, forged) = (Digest::of(&[9; 4096]).to_string(), Digest::of(&[8; 4096]).to_string());
    let record = world.path("cache/prepared").join(format!("{}.json", key()));
    let text = fs::read_to_string(&record).unwrap();
    rewrite(&stored.aot_path, &[8; 4096]);
    rewrite(&record, text.replace(&genuine, &forged).as_bytes());
    assert!(store.open(&key()).unwrap().is_none());
    // Code in a new file is also rejected.
    let other = stored.aot_path.with_file_name(format!("{}-0000000000000000.cwasm", key()));
    fs::rename(&stored.aot_path, &other).unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let text = text.replace(&genuine, &forged).replace(&name(&stored.aot_path), &name(&other));
    rewrite(&record, text.as_bytes());
    assert!(store.open(&key()).unwrap().is_none());
    // The image is rebuilt, and the forged files are removed.
    let built = store.open_or_build(&key(), &NoProgress, || Ok::<_, String>(artefact(vec![9; 4096]))).unwrap();
    store.verify(&built).unwrap();
    assert_eq!(world.files("prepared").len(), 2);
}

#[test]
fn unsealed_image_is_accepted_only_if_older_than_the_seals() {
    let world = World::new("");
    let open = |seals: &str| {
        Runtimes::new(manifest(&pinned()), CacheDir::open_sealed(world.path("cache"), world.path(seals)).unwrap())
    };
    let early = open("early");
    std::thread::sleep(Duration::from_millis(20));
    let made = open("seals").prepared().store(&key(), &artefact(vec![9; 4096])).unwrap();
    assert!(early.prepared().open(&key()).unwrap().is_none());
    std::thread::sleep(Duration::from_millis(20));
    let late = open("late");
    late.prepared().open(&key()).unwrap().unwrap();
    // The file is now sealed, so its modification time is not trusted.
    rewrite(&made.aot_path, &[8; 4096]);
    assert!(matches!(late.prepared().open(&key()), Err(PreparedError::Corrupt { .. })));
    fs::File::open(&made.aot_path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert!(early.prepared().open(&key()).unwrap().is_none());
}

#[test]
fn preparing_again_keeps_open_files_intact() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let mut first = store.store(&key(), &artefact(vec![1; 10])).unwrap();
    // Code left by a writer that was killed before it wrote a record.
    let orphan = first.aot_path.to_str().unwrap().replace(".cwasm", "0.cwasm");
    fs::write(orphan, "x").unwrap();
    let second = store.store(&key(), &artefact(vec![2; 20])).unwrap();
    assert_eq!(store.open(&key()).unwrap().unwrap().aot_path, second.aot_path);
    assert!(!first.aot_path.exists());
    let mut code = Vec::new();
    first.aot.read_to_end(&mut code).unwrap();
    assert_eq!(code, [1; 10]);
    assert_eq!(world.files("prepared").len(), 2);
}

#[test]
fn concurrent_builds_run_once() {
    let world = World::new("");
    let built = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let runtimes = world.runtimes();
                let artefact = runtimes.prepared().open_or_build(&key(), &NoProgress, || {
                    built.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(50));
                    Ok::<_, String>(artefact(vec![5; 1000]))
                });
                assert_eq!(artefact.unwrap().aot_bytes, 1000);
            });
        }
    });
    assert_eq!(built.into_inner(), 1);
}

#[test]
fn concurrent_build_and_removal_never_fail() {
    let world = World::new("");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let world = &world;
            scope.spawn(move || {
                let runtimes = world.runtimes();
                for round in 0..40u8 {
                    let build = || Ok::<_, String>(artefact(vec![round % 2; 1000]));
                    let artefact = runtimes.prepared().open_or_build(&key(), &NoProgress, build).unwrap();
                    assert_eq!(artefact.aot_bytes, 1000);
                    if (round + thread) % 3 == 0 {
                        runtimes.prepared().remove(&parts().runtime).unwrap();
                    }
                    runtimes.prepared().list().unwrap();
                }
            });
        }
    });
}

#[test]
fn failed_build_stores_nothing_and_can_be_retried() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let failed = store.open_or_build(&key(), &NoProgress, || Err("it did not boot"));
    assert!(matches!(failed, Err(BuildError::Build("it did not boot"))));
    assert_eq!(world.files("prepared"), [""; 0]);
    store.open_or_build(&key(), &NoProgress, || Ok::<_, String>(artefact(vec![1]))).unwrap();
}

#[test]
fn images_are_listed_measured_and_removed_by_binary() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let store = runtimes.prepared();
    let other = ArtefactKey::new(KeyParts { runtime: Digest::of(b"other"), label: "other".to_owned(), ..parts() });
    let newer = ArtefactKey::new(KeyParts { wasmtime: "49".to_owned(), ..parts() });
    for key in [&key(), &other, &newer] {
        store.store(key, &artefact(vec![1; 1000])).unwrap();
    }
    let labels: Vec<_> = store.list().unwrap().into_iter().map(|listed| listed.parts.label).collect();
    assert_eq!(labels, ["fake-1.0", "fake-1.0", "other"]);
    let total = store.size_bytes().unwrap();
    assert!(total > 3000);
    let freed = store.remove(&parts().runtime).unwrap();
    assert_eq!(store.size_bytes().unwrap(), total - freed);
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(store.open(&newer).unwrap().is_none() && store.open(&other).unwrap().is_some());
    fs::write(world.path("cache/prepared/orphan-00-00.cwasm"), [0; 50]).unwrap();
    let left = store.size_bytes().unwrap();
    assert_eq!(store.clear().unwrap(), left);
    assert_eq!((store.size_bytes().unwrap(), world.files("prepared").len()), (0, 0));
}

/// The size of the code in bytes: large enough that a kill can interrupt the write.
const CODE_BYTES: usize = 300_000;

/// A helper process, not a test. Fetches, stores, replaces, evicts and removes until it is killed.
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
        runtimes.fetch(entry, &NoProgress).unwrap();
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
fn killed_build_leaves_a_complete_image_or_none() {
    let world = World::with_wheels();
    world.wheel("first", "a/fake.wasm", &pinned());
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    let mut random = Random::from_environment();
    let (mut kills, mut whole) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) || kills <= 10 || whole == 0 {
        assert!(began.elapsed() < Duration::from_secs(120), "{kills} kills, {whole} whole");
        // Wait longer for the first image, because the machine may be slow.
        let spread_us = if whole == 0 { 40_000 * (1 + kills) } else { 40_000 };
        let mut child = child("prepared::child_writes_until_killed", world.dir.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(3_000 + random.below(spread_us)));
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

    // The locks of killed processes are free. Leftover files are removed when they are old enough.
    let age_leftovers = || {
        let old = SystemTime::now() - Duration::from_secs(3600);
        for dir in ["binaries", "prepared"] {
            for name in world.files(dir).iter().filter(|name| name.starts_with(".tmp-")) {
                fs::File::open(world.path("cache").join(dir).join(name)).unwrap().set_modified(old).unwrap();
            }
        }
    };
    // Retry, because the last child may have started a process that holds the lock until it ends.
    let began = Instant::now();
    loop {
        age_leftovers();
        runtimes.remove(entry).unwrap();
        let evicted = runtimes.evict(&CacheKind::ALL, &Eviction { max_bytes: Some(0), ..Eviction::default() }).unwrap();
        let left = (world.files("prepared").len(), world.files("locks").len());
        if evicted.in_use.is_empty() && left == (0, 0) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{evicted:?} {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    age_leftovers();
    runtimes.load_or_fetch(entry, &NoProgress).unwrap();
    runtimes.prepared().open_or_build(&key(), &NoProgress, || Ok::<_, String>(artefact(vec![1]))).unwrap();
    assert_eq!((world.files("binaries").len(), world.files("prepared").len()), (1, 2));
}
