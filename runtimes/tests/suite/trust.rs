//! Trust in files: a cache that others can write to is rejected, with a helpful message.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use glovebox_runtimes::{CacheDir, CacheError, Progress, Quiet};

use crate::support::{World, artefact, chmod, key, pinned};

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
fn a_link_in_the_place_of_the_cache_is_refused_with_and_without_slash() {
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
fn a_link_or_pipe_in_the_place_of_a_file_is_refused() {
    let world = World::new("");
    let runtimes = world.runtimes();
    let entry = runtimes.manifest().find("fake").unwrap();
    runtimes.present(entry).unwrap();
    fs::write(world.path("elsewhere"), pinned()).unwrap();
    symlink(world.path("elsewhere"), runtimes.path(entry)).unwrap();
    let error = runtimes.load(entry).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    fs::remove_file(runtimes.path(entry)).unwrap();

    // Opening a FIFO would wait for a writer.
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
fn who_waits_for_a_lock_can_be_told_to_give_up() {
    struct Impatient;
    impl Progress for Impatient {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let world = World::new("");
    let cache = world.cache();
    let held = cache.lock("x/../y", &Quiet).unwrap();
    let error = cache.lock("x/../y", &Impatient).unwrap_err();
    assert!(matches!(error, CacheError::Cancelled { .. }), "{error}");
    let other = cache.lock("other", &Impatient).unwrap();
    assert_eq!(world.files("locks"), ["other.lock", "x_.._y.lock"]);
    drop((held, other));
    // Waits until the lock is free: a child that another test starts has a copy of the lock's descriptor from its fork
    // to its exec.
    cache.lock("x/../y", &Quiet).unwrap();
    assert_eq!(world.files("locks"), [""; 0], "locks leave no files");
}
