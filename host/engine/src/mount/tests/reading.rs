//! Tests of reading: entries that guests see and entries that are hidden from them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glovebox_vfs::{FileKind, MountSource as _};
use tempfile::tempdir;

use super::super::{HostDirectory, MountError};
use super::writable;

fn make_pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn host_links_are_listed_and_never_followed() {
    let dir = tempdir().unwrap();
    symlink("/etc", dir.path().join("etc")).unwrap();
    symlink("/etc/passwd", dir.path().join("passwd")).unwrap();
    symlink("..", dir.path().join("up")).unwrap();
    let host = HostDirectory::open(dir.path()).unwrap();
    assert_eq!(host.stat("passwd").unwrap().unwrap().kind, FileKind::Symlink);
    assert_eq!(host.read_link("passwd").unwrap(), "/etc/passwd");
    let mut buffer = [0; 64];
    for path in ["passwd", "etc/passwd", "etc/../etc/passwd", "../x", "/etc/passwd", "up/x"] {
        assert!(host.read(path, 0, &mut buffer).is_err(), "{path}");
    }
    for path in ["etc", "up", "..", "etc/ssl", "/"] {
        assert!(host.list(path, 100).is_err(), "{path}");
    }
    assert!(host.stat("etc/passwd").is_err());
    assert!(host.stat("up/x").is_err());
}

#[test]
fn directory_swapped_for_a_link_never_leads_out() {
    let outside = tempdir().unwrap();
    fs::create_dir(outside.path().join("b")).unwrap();
    fs::write(outside.path().join("b/file"), "secret").unwrap();
    let dir = tempdir().unwrap();
    let top = dir.path();
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/b/file"), "public").unwrap();
    let host = HostDirectory::open(top).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(top.join("a"), top.join("real")).unwrap();
                symlink(outside.path(), top.join("a")).unwrap();
                fs::remove_file(top.join("a")).unwrap();
                fs::rename(top.join("real"), top.join("a")).unwrap();
            }
        });
        let begun = Instant::now();
        let (mut seen, mut refused) = (0, 0);
        // On a single core, this can take a while, because the other thread must be preempted at the right moment.
        let is_over = |both| begun.elapsed() > if both { Duration::from_millis(700) } else { Duration::from_secs(60) };
        while !is_over(seen > 0 && refused > 0) {
            let mut buffer = [0; 16];
            match host.read("a/b/file", 0, &mut buffer) {
                Ok(count) => {
                    assert_eq!(&buffer[..count], b"public");
                    seen += 1;
                }
                Err(_) => refused += 1,
            }
            for entry in host.list("a/b", 10).unwrap_or_default() {
                assert_eq!(entry.stat.size_bytes, 6);
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(seen > 0 && refused > 0, "{seen} seen, {refused} refused");
    });
}

#[test]
fn a_pipe_or_socket_is_neither_shown_nor_opened() {
    let dir = tempdir().unwrap();
    make_pipe(&dir.path().join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    let host = HostDirectory::open(dir.path()).unwrap();
    let begun = Instant::now();
    let entries = host.list("", 10).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].name, "file");
    assert_eq!(host.skipped().special_count, 2);
    for name in ["pipe", "socket"] {
        assert!(host.read(name, 0, &mut [0; 8]).is_err());
        assert_eq!(host.stat(name), Ok(None));
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_file_swapped_for_a_pipe_does_not_block() {
    let dir = tempdir().unwrap();
    let (file, pipe) = (dir.path().join("x"), dir.path().join("pipe"));
    fs::write(&file, "public").unwrap();
    make_pipe(&pipe);
    let host = HostDirectory::open(dir.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let aside = dir.path().join("aside");
            while !done.load(Ordering::Relaxed) {
                fs::rename(&file, &aside).unwrap();
                fs::rename(&pipe, &file).unwrap();
                fs::rename(&file, &pipe).unwrap();
                fs::rename(&aside, &file).unwrap();
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            let mut buffer = [0; 16];
            if let Ok(count) = host.read("x", 0, &mut buffer) {
                assert_eq!(&buffer[..count], b"public");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn names_that_are_not_utf8_are_skipped_and_counted() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    fs::write(dir.path().join("gut\u{e4}"), "x").unwrap();
    let host = HostDirectory::open(dir.path()).unwrap();
    let entries = host.list("", 10).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].name, "gut\u{e4}");
    assert_eq!(host.skipped().not_utf8_count, 1);
}

#[test]
fn a_listing_stops_one_past_its_limit() {
    let dir = tempdir().unwrap();
    for number in 0..20 {
        fs::write(dir.path().join(number.to_string()), "x").unwrap();
    }
    let host = HostDirectory::open(dir.path()).unwrap();
    for (limit, expected) in [(0, 1), (18, 19), (19, 20), (20, 20), (21, 20), (usize::MAX, 20)] {
        assert_eq!(host.list("", limit).unwrap().len(), expected, "{limit}");
    }
}

#[test]
fn private_directories_are_not_shown_at_any_level() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    for name in [".glovebox-commit-1", "sub/.GLOVEBOX-commit-", "sub/shown"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("x"), "x").unwrap();
    }
    assert_eq!(host.list("", 10).unwrap().len(), 1);
    assert_eq!(host.list("sub", 10).unwrap().len(), 1);
    assert!(host.list(".glovebox-commit-1", 10).is_err());
    assert_eq!(host.stat("sub/.GLOVEBOX-commit-"), Ok(None));
    assert!(host.read(".glovebox-commit-1/x", 0, &mut [0]).is_err());
}

#[test]
fn deep_tree_is_walked_and_too_deep_tree_rejected() {
    let dir = tempdir().unwrap();
    let made = std::process::Command::new("python3")
        .args(["-c", "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nopen('f','w').write('deep')"])
        .current_dir(dir.path())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: `python3` is missing, which creates the nested directories");
        return;
    }
    let host = HostDirectory::open(dir.path()).unwrap();
    let deepest = vec!["d"; 1500].join("/");
    assert_eq!(host.list(&deepest, 10).unwrap()[0].name, "f");
    let mut buffer = [0; 8];
    let count = host.read(&format!("{deepest}/f"), 0, &mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"deep");
    let error = host.list(&vec!["d"; 4097].join("/"), 10).unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
}

#[test]
fn a_large_file_is_read_in_chunks_and_never_held() {
    let dir = tempdir().unwrap();
    let size = 4_u64 << 30;
    let file = fs::File::create(dir.path().join("big")).unwrap();
    file.set_len(size).unwrap();
    let host = HostDirectory::open(dir.path()).unwrap();
    assert_eq!(host.stat("big").unwrap().unwrap().size_bytes, size);
    let mut buffer = vec![1; 64 << 10];
    let before = resident_bytes();
    for chunk in 0..2048_u64 {
        assert_eq!(host.read("big", chunk << 16, &mut buffer).unwrap(), buffer.len());
    }
    assert_eq!(host.read("big", size, &mut buffer).unwrap(), 0);
    assert_eq!(host.read("big", u64::MAX >> 1, &mut buffer).unwrap(), 0);
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        // Tests that run concurrently also use memory.
        assert!(after < before + (64 << 20), "{before} to {after}");
    }
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[test]
fn unreadable_directory_error_has_a_hint() {
    let dir = tempdir().unwrap();
    let missing = dir.path().join("missing");
    fs::write(dir.path().join("file"), "x").unwrap();
    for open in [
        |path: &std::path::Path| HostDirectory::open(path),
        |path: &std::path::Path| HostDirectory::open_for_writing(path, Duration::ZERO),
    ] {
        let error = open(&missing).unwrap_err();
        assert!(matches!(error, MountError::Missing { .. }));
        assert!(error.to_string().contains(missing.to_str().unwrap()));
        let error = open(&dir.path().join("file")).unwrap_err();
        assert!(matches!(error, MountError::NotADirectory { .. }), "{error}");
    }
    assert!(!missing.exists());
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_ok() {
        println!("partly skipped: file permissions do not restrict this user");
        return;
    }
    let error = HostDirectory::open(&closed).unwrap_err();
    assert!(matches!(error, MountError::Denied { .. }), "{error}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    HostDirectory::open(&closed).unwrap();
    let error = HostDirectory::open_for_writing(&closed, Duration::ZERO).unwrap_err();
    assert!(matches!(error, MountError::Denied { .. }), "{error}");
}
