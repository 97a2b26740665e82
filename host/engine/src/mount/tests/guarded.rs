//! Tests of Glovebox's own directories, which guests cannot access.

use std::{fs, os::unix::fs::symlink};

use glovebox_runtimes::{
    CacheDir, UserPackages,
    guard::{Guard, GuardedDirectory},
};
use tempfile::{TempDir, tempdir};

use super::super::{MountError, Relation, check_directory};
use super::*;

/// Creates a home directory that contains a nested cache and an unrelated directory.
fn home() -> (TempDir, CacheDir) {
    let home = tempdir().unwrap();
    fs::create_dir_all(home.path().join("work/.cache/x")).unwrap();
    fs::create_dir_all(home.path().join("beside")).unwrap();
    fs::write(home.path().join("beside/file"), "1").unwrap();
    let seals = home.path().join("seals");
    let cache = CacheDir::open_sealed(home.path().join("work/.cache/ours"), seals).unwrap();
    (home, cache)
}

fn refused(path: &Path, expected: Relation, what: GuardedDirectory, ours: &Path) {
    let errors = [
        HostDirectory::open(path).unwrap_err(),
        HostDirectory::open_for_writing(path, WAIT).unwrap_err(),
        check_directory(path).unwrap_err(),
    ];
    for error in errors {
        let MountError::Guarded { relation, guarded, .. } = &error else { panic!("{}: {error}", path.display()) };
        assert_eq!((*relation, *guarded), (expected, what), "{}", path.display());
        let text = error.to_string();
        for part in [&*path.to_string_lossy(), &*ours.to_string_lossy(), what.remedy(), "use another directory"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn a_mount_that_reaches_the_cache_is_refused_by_any_name() {
    let (home, cache) = home();
    let at = |path: &str| home.path().join(path);
    symlink(at("work/.cache"), at("link")).unwrap();
    symlink("ours", at("work/.cache/alias")).unwrap();
    fs::create_dir(cache.path().join("prepared")).unwrap();
    for (path, relation) in [
        ("work/.cache/ours", Relation::Is),
        ("link/ours", Relation::Is),
        ("work/.cache/alias", Relation::Is),
        ("work/.cache/x/../ours/.", Relation::Is),
        ("work/.cache", Relation::Contains),
        ("work", Relation::Contains),
        ("link", Relation::Contains),
        ("work/.cache/ours/prepared", Relation::Inside),
        ("link/alias/prepared", Relation::Inside),
    ] {
        refused(&at(path), relation, GuardedDirectory::Cache, cache.path());
    }
    for path in ["beside", "work/.cache/x", "link/x"] {
        HostDirectory::open(at(path)).unwrap();
        HostDirectory::open_for_writing(at(path), WAIT).unwrap();
        check_directory(at(path)).unwrap();
    }
    assert!(matches!(HostDirectory::open("/"), Err(MountError::Guarded { relation: Relation::Contains, .. })));
}

#[test]
fn mount_over_packages_seals_or_named_directories_is_rejected() {
    let dir = tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let _packages = UserPackages::open(&at("b/packages")).unwrap();
    refused(&at("b"), Relation::Contains, GuardedDirectory::Packages, &at("b/packages"));
    let _cache = CacheDir::open_sealed(at("c/cache"), at("d/seals")).unwrap();
    refused(&at("d"), Relation::Contains, GuardedDirectory::Seals, &at("d/seals"));
    // `e/not/yet` does not exist, but a mount of `e` would contain it once it exists.
    fs::create_dir(at("e")).unwrap();
    let named = Guard::named(GuardedDirectory::Private, &at("e/not/yet"));
    refused(&at("e"), Relation::Contains, GuardedDirectory::Private, &at("e/not/yet"));
    drop(named);
    HostDirectory::open(at("e")).unwrap();
}

#[test]
fn cache_created_later_blocks_commits() {
    let (home, _cache) = home();
    let path = home.path().join("beside");
    let host = writable(&path);
    let mut guest = Guest::new();
    let plan = [guest.write("file", b"2", shown(&host, "file"))];
    let late = CacheDir::open_sealed(path.join("late"), home.path().join("seals")).unwrap();
    for _ in 0..2 {
        let error = guest.commit(&host, &plan).unwrap_err();
        assert!(matches!(error, MountError::Guarded { relation: Relation::Contains, .. }), "{error}");
        assert!(host.check_guarded().is_err());
    }
    assert_eq!(fs::read(path.join("file")).unwrap(), b"1");
    drop(late);
    guest.commit(&host, &plan).unwrap();
}

#[test]
fn a_cache_that_is_moved_into_a_mount_is_not_entered() {
    let (home, cache) = home();
    let path = home.path().join("beside");
    let host = writable(&path);
    fs::create_dir_all(cache.path().join("prepared")).unwrap();
    fs::write(cache.path().join("prepared/image"), "native").unwrap();
    fs::rename(cache.path(), path.join("moved")).unwrap();
    assert!(host.list("moved", 10).is_err());
    assert!(host.list("moved/prepared", 10).is_err());
    assert!(host.read("moved/prepared/image", 0, &mut [0; 8]).is_err());
    assert!(host.stat("moved/prepared/image").is_err());
    let mut guest = Guest::new();
    let plan = [guest.write("moved/prepared/image", b"forged", None)];
    guest.commit(&host, &plan).unwrap_err();
    assert_eq!(fs::read(path.join("moved/prepared/image")).unwrap(), b"native");
}
