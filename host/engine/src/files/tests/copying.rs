//! Tests of copying files into and out of a workspace.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use glovebox_vfs::{VfsError, VfsLimits};

use super::{FileError, FilesError, IfExists, Space, refusal};
use crate::mount::MountError;

/// Lists all entries below a host directory, with the contents of files and the targets of links.
fn host(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            if path.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else if path.is_dir() {
                found.insert(name, "/".to_owned());
                left.push(path);
            } else {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(path, contents)| ((*path).to_owned(), (*contents).to_owned())).collect()
}

#[test]
fn copy_in_does_not_follow_links() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("a.txt"), "A").unwrap();
    fs::write(tree.join("sub/b.txt"), "B").unwrap();
    fs::write(tree.join("sub/odd\\na\nme"), "C").unwrap();
    symlink("a.txt", tree.join("inside")).unwrap();
    symlink("../../secret", tree.join("sub/outside")).unwrap();
    symlink(&secret, tree.join("absolute")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap().success());

    let mut space = Space::new();
    let report = space.copy_in(&tree, "data", IfExists::Fail).unwrap();
    assert_eq!(
        space.paths(),
        ["data", "data/a.txt", "data/inside", "data/sub", "data/sub/b.txt", "data/sub/odd\\na\nme", "data/sub/outside"]
    );
    assert_eq!(space.text("data/inside"), "A");
    // The link exists but is dangling, because its target is resolved inside the workspace.
    assert_eq!(refusal(space.files().read("data/sub/outside/key")), VfsError::NotFound);
    let counts = (report.file_count, report.directory_count, report.link_count, report.bytes, report.skipped_count);
    assert_eq!(counts, (3, 1, 2, 3, 2));
}

#[test]
fn a_link_named_as_the_source_or_target_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "F").unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    symlink("file", dir.path().join("to-file")).unwrap();
    symlink("dir", dir.path().join("to-dir")).unwrap();
    symlink("nowhere", dir.path().join("to-nowhere")).unwrap();
    let mut space = Space::holding(&[("f", "x"), ("d/f", "x")]);
    for name in ["to-file", "to-dir", "to-nowhere"] {
        let path = dir.path().join(name);
        assert!(matches!(space.copy_in(&path, "in", IfExists::Replace), Err(FilesError::HostLink { .. })), "{name}");
        for from in ["f", "d"] {
            let copied = space.files().copy_out(from, &path, IfExists::Replace);
            assert!(matches!(copied, Err(FilesError::HostLink { .. })), "{name} {from}");
        }
    }
    assert_eq!(space.paths(), ["d", "d/f", "f"]);
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "F");
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn host_file_is_copied_in_under_the_given_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("host.txt");
    fs::write(&file, "host").unwrap();
    let mut space = Space::holding(&[("empty", ""), ("dir/x", "")]);
    space.copy_in(&file, "new/name.txt", IfExists::Fail).unwrap();
    assert_eq!(space.text("new/name.txt"), "host");
    let exists = space.copy_in(&file, "empty", IfExists::Fail);
    assert!(matches!(exists, Err(FilesError::Workspace(FileError::Exists { .. }))), "{exists:?}");
    space.copy_in(&file, "empty", IfExists::Replace).unwrap();
    assert_eq!(space.text("empty"), "host");
    assert_eq!(refusal(space.copy_in(&file, "dir", IfExists::Replace)), VfsError::IsADirectory);
    for to in ["../x", "/app/x", "", "."] {
        assert!(
            matches!(space.copy_in(&file, to, IfExists::Replace), Err(FilesError::Workspace(FileError::Path { .. }))),
            "{to}"
        );
    }
    let gone = space.copy_in(&dir.path().join("gone"), "x", IfExists::Fail);
    assert!(matches!(gone, Err(FilesError::HostMissing { .. })), "{gone:?}");
    assert!(matches!(space.copy_in(Path::new("/dev/null"), "x", IfExists::Fail), Err(FilesError::HostPath { .. })));
}

#[test]
fn copy_in_does_not_follow_guest_links() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/f"), "new").unwrap();
    let mut space = Space::holding(&[("precious/f", "old")]);
    space.link("sub", "precious");
    space.link("file", "precious/f");
    assert_eq!(refusal(space.copy_in(dir.path(), "", IfExists::Replace)), VfsError::NotADirectory);
    // A link with the name of the copied file is replaced, not followed.
    space.copy_in(&dir.path().join("sub/f"), "file", IfExists::Replace).unwrap();
    assert_eq!(space.text("precious/f"), "old");
    assert_eq!(space.text("file"), "new");
}

#[test]
fn a_copy_in_over_a_quota_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(dir.path().join(name), "x".repeat(5_000)).unwrap();
    }
    for (inodes, fits) in [(2, false), (3, true), (4, true)] {
        let mut space = Space::with(VfsLimits { inodes, ..VfsLimits::default() });
        let copied = space.copy_in(dir.path(), "", IfExists::Fail);
        assert_eq!(copied.is_ok(), fits, "{inodes}");
        assert_eq!(space.paths().len(), if fits { 3 } else { 0 });
    }
    const FITTING: u64 = 3 * (8_192 + 512 + 256 + 1);
    for (bytes, fits) in [(FITTING - 1, false), (FITTING, true), (FITTING + 1, true)] {
        let mut space = Space::with(VfsLimits { bytes, ..VfsLimits::default() });
        let copied = space.copy_in(dir.path(), "", IfExists::Fail);
        assert_eq!(copied.is_ok(), fits, "{bytes}");
        if !fits {
            assert_eq!(refusal(copied), VfsError::NoSpace);
            assert_eq!(space.vfs.bytes_used(), 0);
        }
    }
}

#[test]
fn a_huge_host_file_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let huge = dir.path().join("huge");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let mut space = Space::new();
    assert_eq!(refusal(space.copy_in(&huge, "huge", IfExists::Fail)), VfsError::NoSpace);
}

fn results() -> Space {
    let mut space = Space::holding(&[("out/a.txt", "A"), ("out/sub/b.txt", "B"), ("private", "P")]);
    space.link("out/inside", "sub/b.txt");
    space.link("out/escape", "../private");
    space.link("out/sub/deep-escape", "../../private");
    space
}

#[test]
fn copy_out_skips_links_that_lead_out() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    let report = results().files().copy_out("out", &target, IfExists::Fail).unwrap();
    let expected = [("a.txt", "A"), ("inside", "-> sub/b.txt"), ("sub", "/"), ("sub/b.txt", "B")];
    assert_eq!(host(&target), pairs(&expected));
    let counts = (report.file_count, report.directory_count, report.link_count, report.bytes, report.skipped_count);
    assert_eq!(counts, (2, 1, 1, 2, 2));
    assert_eq!(host(dir.path()).len(), 5);
}

#[test]
fn copy_out_replaces_whole_files_if_allowed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/b.txt"), "").unwrap();
    fs::write(dir.path().join("other"), "held").unwrap();
    let files = results().files();
    let refused = files.copy_out("out", dir.path(), IfExists::Fail);
    assert!(
        matches!(&refused, Err(FilesError::Workspace(FileError::Exists { path })) if path == "sub/b.txt"),
        "{refused:?}"
    );
    assert_eq!(host(dir.path()).len(), 3);

    files.copy_out("out", dir.path(), IfExists::Replace).unwrap();
    let all = [("a.txt", "A"), ("inside", "-> sub/b.txt"), ("other", "held"), ("sub", "/"), ("sub/b.txt", "B")];
    assert_eq!(host(dir.path()), pairs(&all));

    // Copy again over the first copy.
    files.copy_out("out", dir.path(), IfExists::Replace).unwrap();
    assert_eq!(host(dir.path()), pairs(&all));
}

#[test]
fn a_copy_out_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Creates a directory at the path of a copied file, and later a file at the path of a copied directory.
    fs::create_dir(dir.path().join("a.txt")).unwrap();
    let copied = results().files().copy_out("out", dir.path(), IfExists::Replace);
    assert!(matches!(copied, Err(FilesError::Host(MountError::Conflict { .. }))), "{copied:?}");
    assert_eq!(host(dir.path()), pairs(&[("a.txt", "/")]));
    fs::remove_dir(dir.path().join("a.txt")).unwrap();
    fs::write(dir.path().join("sub"), "file").unwrap();
    assert!(results().files().copy_out("out", dir.path(), IfExists::Replace).is_err());
    assert_eq!(host(dir.path()), pairs(&[("sub", "file")]));
}

#[test]
fn copy_out_does_not_follow_host_links() {
    let dir = tempfile::tempdir().unwrap();
    let (target, elsewhere) = (dir.path().join("target"), dir.path().join("elsewhere"));
    fs::create_dir(&target).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("a.txt"), "held").unwrap();
    symlink("../elsewhere", target.join("sub")).unwrap();
    assert!(results().files().copy_out("out", &target, IfExists::Replace).is_err());
    assert_eq!(host(&elsewhere), pairs(&[("a.txt", "held")]));
    fs::remove_file(target.join("sub")).unwrap();
    symlink("../elsewhere/a.txt", target.join("a.txt")).unwrap();
    // The link itself is replaced.
    results().files().copy_out("out", &target, IfExists::Replace).unwrap();
    assert_eq!(host(&elsewhere), pairs(&[("a.txt", "held")]));
    assert_eq!(host(&target).get("a.txt").map(String::as_str), Some("A"));
}

#[test]
fn single_file_is_copied_out_under_the_given_name() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("result.txt");
    let files = results().files();
    files.copy_out("out/inside", &target, IfExists::Fail).unwrap();
    assert_eq!(host(dir.path()), pairs(&[("result.txt", "B")]));
    fs::write(&target, "").unwrap();
    assert!(matches!(
        files.copy_out("out/a.txt", &target, IfExists::Fail),
        Err(FilesError::Workspace(FileError::Exists { .. }))
    ));
    files.copy_out("out/a.txt", &target, IfExists::Replace).unwrap();
    assert_eq!(host(dir.path()), pairs(&[("result.txt", "A")]));
    assert!(matches!(
        files.copy_out("out/a.txt", dir.path(), IfExists::Replace),
        Err(FilesError::Workspace(FileError::Exists { .. }))
    ));
    assert!(files.copy_out("out/a.txt", dir.path().join("no/such/dir"), IfExists::Fail).is_err());
    assert!(matches!(
        files.copy_out("../x", &target, IfExists::Fail),
        Err(FilesError::Workspace(FileError::Path { .. }))
    ));
    assert_eq!(refusal(files.copy_out("gone", &target, IfExists::Fail)), VfsError::NotFound);
    assert_eq!(refusal(files.copy_out("out/escape/x", &target, IfExists::Fail)), VfsError::NotADirectory);
}

#[test]
fn copy_out_of_hard_links_respects_the_quota() {
    for (links, fits) in [(2, true), (3, true), (4, false)] {
        let mut space = Space::with(VfsLimits { bytes: 3 * 4_096, ..VfsLimits::default() });
        space.write("0", &"x".repeat(4_096));
        for link in 1..links {
            space.hard_link(&link.to_string(), "0");
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let copied = space.files().copy_out("", &target, IfExists::Fail);
        assert_eq!(copied.is_ok(), fits, "{links}: {copied:?}");
        if !fits {
            assert!(matches!(copied, Err(FilesError::Host(MountError::TooLarge { .. }))), "{copied:?}");
            assert!(!target.exists());
        }
    }
}

#[test]
fn reserved_commit_names_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let space = Space::holding(&[("a", "A"), (".glovebox-commit-x/journal", "forged"), ("s/.GLOVEBOX-commit-y", "")]);
    let target = dir.path().join("target");
    let report = space.files().copy_out("", &target, IfExists::Fail).unwrap();
    assert_eq!(host(&target), pairs(&[("a", "A"), ("s", "/")]));
    assert_eq!(report.skipped_count, 3);
}
