//! Tests of the entries that commits write or reject.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use super::super::{HostDirectory, MountError};
use super::*;

#[test]
fn commit_applies_all_changes_and_leaves_no_private_files() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    let written = guest.commit(&host, &plan).unwrap();
    assert_eq!(state(dir.path()), sample_result());
    for (path, stat) in &written {
        assert_eq!(host.stat(path).unwrap(), Some(*stat), "{path}");
    }
    // The result contains all new files and links, and no other entries.
    assert_eq!(written.len(), 8);
}

#[test]
fn an_empty_plan_touches_nothing() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let before = fs::metadata(dir.path()).unwrap().mtime_nsec();
    Guest::new().commit(&host, &[]).unwrap();
    assert_eq!(fs::metadata(dir.path()).unwrap().mtime_nsec(), before);
}

#[test]
fn second_commit_uses_the_reported_bases() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let first = [guest.write("a", b"one", None)];
    let written = guest.commit(&host, &first).unwrap();
    let second = [guest.write("a", b"two", Some(written[0].1))];
    guest.commit(&host, &second).unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"two");
    let stale = [guest.write("a", b"three", Some(written[0].1))];
    guest.commit(&host, &stale).unwrap_err();
}

#[test]
fn large_and_empty_files_are_committed() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let data: Vec<u8> = (0..3_000_001_u32).map(|n| n.to_le_bytes()[0]).collect();
    let plan = [guest.write("big", &data, None), guest.write("empty", b"", None)];
    guest.commit(&host, &plan).unwrap();
    assert!(fs::read(dir.path().join("big")).unwrap() == data);
    assert_eq!(fs::read(dir.path().join("empty")).unwrap(), b"");
}

#[test]
fn many_files_are_committed() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let mut plan: Vec<_> = (0..60).map(|n| create_dir(&format!("d{n:02}"))).collect();
    plan.extend((0..60).map(|n| guest.write(&format!("d{n:02}/f"), b"x", None)));
    plan.extend((0..60).map(|n| guest.write(&format!("f{n:02}"), b"x", None)));
    guest.commit(&host, &plan).unwrap();
    assert_eq!(state(dir.path()).len(), 180);
}

#[test]
fn read_only_mount_is_never_written() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let before = state(dir.path());
    let host = HostDirectory::open(dir.path()).unwrap();
    let mut guest = Guest::new();
    let plan = sample_plan(&mut guest, &host);
    let error = guest.commit(&host, &plan).unwrap_err();
    assert!(matches!(error, MountError::ReadOnly { .. }), "{error}");
    assert_eq!(state(dir.path()), before);
}

#[test]
fn reserved_names_and_outside_paths_are_rejected_first() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    for path in [
        ".glovebox-commit-0000000000000000",
        ".glovebox-commit-x/journal",
        "sub/.glovebox-commit-",
        ".GloveBox-Commit-x",
    ] {
        for step in [guest.write(path, b"x", None), create_dir(path), link(path, "a"), delete(path, None)] {
            let plan = [guest.write("fine", b"x", None), step];
            let error = guest.commit(&host, &plan).unwrap_err();
            assert!(matches!(error, MountError::ReservedName { .. }), "{error}");
        }
    }
    for path in ["", ".", "..", "../x", "a/../x", "/etc/x", "a//b", "a/", "a\0b"] {
        let plan = [guest.write("fine", b"x", None), guest.write(path, b"x", None)];
        let error = guest.commit(&host, &plan).unwrap_err();
        assert!(matches!(error, MountError::InvalidPath { .. }), "{path}: {error}");
    }
    assert!(state(dir.path()).is_empty());
    let plan = [guest.write("glovebox-commit-x", b"x", None)];
    guest.commit(&host, &plan).unwrap();
}

#[test]
fn links_that_could_lead_out_are_refused() {
    let dir = tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    for (path, target) in [
        ("l", ".."),
        ("l", "/etc/passwd"),
        ("l", "../x"),
        ("l", ""),
        ("l", "a/../.."),
        // The host could replace `a` with a link to a directory higher up.
        ("l", "a/../x"),
        ("a/l", "../.."),
        ("a/b/l", "../../../x"),
        ("a/b/l", "./.././/../../x"),
    ] {
        let plan = [guest.write("fine", b"x", None), link(path, target)];
        let error = guest.commit(&host, &plan).unwrap_err();
        assert!(matches!(error, MountError::LinkLeaves { .. }), "{target}: {error}");
        assert!(!dir.path().join("fine").exists());
    }
    for (path, target) in [("l", "a"), ("l2", "missing/x"), ("a/l", "./.."), ("a/b/l", "../../x")] {
        guest.commit(&host, &[link(path, target)]).unwrap();
        assert_eq!(fs::read_link(dir.path().join(path)).unwrap().to_str(), Some(target));
    }
    let escapes = CommitStep::Symlink { path: "l3".into(), target: "a".into(), escapes: true, base: None };
    guest.commit(&host, &[escapes]).unwrap_err();
}

#[test]
fn a_link_on_the_host_is_replaced_and_never_written_through() {
    let outside = tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let dir = tempdir().unwrap();
    symlink(&victim, dir.path().join("link")).unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let base = shown(&host, "link");
    let plan = [guest.write("link", b"mine", base)];
    guest.commit(&host, &plan).unwrap();
    assert!(fs::symlink_metadata(dir.path().join("link")).unwrap().is_file());
    for step in [
        guest.write("out/new", b"x", None),
        guest.write("out/victim", b"x", None),
        create_dir("out/dir"),
        link("out/link", "x"),
    ] {
        let error = guest.commit(&host, &[step]).unwrap_err();
        assert!(matches!(error, MountError::Conflict { .. }), "{error}");
    }
    for step in [delete("out/victim", None), remove_dir("out")] {
        guest.commit(&host, &[step]).unwrap_err();
    }
    assert_eq!(state(outside.path()).len(), 1);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn files_and_links_replace_each_other() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    symlink("old", dir.path().join("link")).unwrap();
    symlink("old", dir.path().join("other")).unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let relink = |path: &str| CommitStep::Symlink {
        path: path.into(),
        target: "new".into(),
        escapes: false,
        base: shown(&host, path),
    };
    let plan = [relink("file"), relink("link"), guest.write("other", b"data", shown(&host, "other"))];
    guest.commit(&host, &plan).unwrap();
    let new = Node::Link("new".into());
    let expected = [("file", new.clone()), ("link", new), ("other", file(b"data"))];
    assert!(state(dir.path()).into_iter().eq(expected.map(|(path, node)| (path.to_owned(), node))));
}

#[test]
fn file_modes_are_kept_except_set_user_id() {
    let dir = tempdir().unwrap();
    for (name, mode) in [("script", 0o755), ("private", 0o600), ("suid", 0o6755)] {
        fs::write(dir.path().join(name), "x").unwrap();
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let mut plan: Vec<_> =
        ["script", "private", "suid"].map(|name| guest.write(name, b"changed", shown(&host, name))).into();
    plan.insert(0, create_dir("dir"));
    plan.push(guest.write("new", b"x", None));
    guest.commit(&host, &plan).unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("script"), 0o755);
    assert_eq!(mode("private"), 0o600);
    assert_eq!(mode("suid"), 0o755);
    // Assumes the usual umask, 022 or stricter, which no other test changes.
    assert_eq!(mode("new") & 0o7133, 0);
    assert_eq!(mode("dir") & 0o7022, 0);
}

#[test]
fn a_nest_of_1500_directories_is_created_and_removed() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let mut guest = Guest::new();
    let paths: Vec<String> = (1..=1500).map(|depth| vec!["d"; depth].join("/")).collect();
    let mut plan: Vec<_> = paths.iter().map(|path| create_dir(path)).collect();
    let file = format!("{}/file", paths[1499]);
    plan.push(guest.write(&file, b"deep", None));
    let begun = Instant::now();
    guest.commit(&host, &plan).unwrap();
    let base = shown(&host, &file);
    let mut plan = vec![delete(&file, base)];
    plan.extend(paths.iter().rev().map(|path| remove_dir(path)));
    guest.commit(&host, &plan).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_tree_too_deep_to_walk_is_refused() {
    let dir = tempdir().unwrap();
    let host = writable(dir.path());
    let plan = [create_dir(&vec!["d"; 4097].join("/"))];
    let error = Guest::new().commit(&host, &plan).unwrap_err();
    assert!(matches!(error, MountError::TooDeep { .. }), "{error}");
}

#[test]
fn two_commits_at_once_do_not_interleave() {
    let dir = tempdir().unwrap();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let (start, path) = (&start, dir.path());
            scope.spawn(move || {
                let host = writable(path);
                let mut guest = Guest::new();
                start.wait();
                let mut done = 0;
                while done < 5 {
                    // All files must contain the mark of the same writer.
                    let seen: Vec<_> = (0..8).map(|n| host.stat(&format!("f{n}")).unwrap()).collect();
                    let plan: Vec<_> =
                        (0..8).map(|n| guest.write(&format!("f{n}"), &[writer, done], seen[n])).collect();
                    match guest.commit(&host, &plan) {
                        Ok(_) => done += 1,
                        Err(MountError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let state = state(dir.path());
    assert_eq!(state.len(), 8);
    assert!(state.values().all(|node| node == &state["f0"]), "{state:?}");
}

#[test]
fn waiting_for_another_commit_has_a_timeout() {
    let dir = tempdir().unwrap();
    let host = HostDirectory::open_for_writing(dir.path(), Duration::from_millis(40)).unwrap();
    let mut guest = Guest::new();
    let plan = [guest.write("a", b"x", None)];
    let held = fs::File::open(dir.path()).unwrap();
    held.lock().unwrap();
    let error = guest.commit(&host, &plan).unwrap_err();
    assert!(matches!(error, MountError::Busy { waited_ms: 40, .. }), "{error}");
    assert!(state(dir.path()).is_empty());
    drop(held);
    guest.commit(&writable(dir.path()), &plan).unwrap();
}
