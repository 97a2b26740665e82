//! End-to-end tests: a host directory in a guest's file system, and its commits.

use std::{fs, sync::Arc};

use glovebox_vfs::{Follow, OpenOptions, VfsError};
use tempfile::tempdir;

use super::super::{Collision, MountError};
use super::*;

/// Creates a guest's file system in which the directory is mounted.
fn mounted(path: &Path) -> (Arc<HostDirectory>, Vfs, RootId) {
    let host = Arc::new(writable(path));
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = vfs.add_mount(host.clone(), Access::ReadWrite).unwrap();
    (host, vfs, root)
}

/// Commits the changes of a root, and marks them as committed in the guest's file system.
fn commit_root(host: &HostDirectory, vfs: &mut Vfs, root: RootId) -> Result<WrittenFiles, MountError> {
    let plan = vfs.commit_plan(root);
    let written = host.commit(&plan, vfs)?;
    vfs.mark_committed(root, written.iter().cloned()).unwrap();
    Ok(written)
}

#[test]
fn files_in_an_unlistable_directory_are_found() {
    let dir = tempdir().unwrap();
    for number in 0..50 {
        fs::write(dir.path().join(format!("f{number}")), format!("{number}")).unwrap();
    }
    for (mount_entries, lists) in [(49, false), (50, true), (51, true)] {
        let host = Arc::new(writable(dir.path()));
        let mut vfs = Vfs::new(VfsLimits { mount_entries, ..VfsLimits::default() });
        let root = vfs.add_mount(host.clone(), Access::ReadWrite).unwrap();
        assert_eq!(vfs.list(root, "").is_ok(), lists, "{mount_entries}");
        assert_eq!(vfs.read_file(root, "f49", 9).unwrap(), b"49", "{mount_entries}");
        assert!(!vfs.exists(root, "f50").unwrap());
        vfs.write_file(root, "f7", b"seven").unwrap();
        vfs.write_file(root, "new", b"new").unwrap();
        vfs.remove(root, "f8").unwrap();
        commit_root(&host, &mut vfs, root).unwrap();
        assert_eq!(fs::read(dir.path().join("f7")).unwrap(), b"seven");
        assert!(!dir.path().join("f8").exists());
        fs::rename(dir.path().join("new"), dir.path().join("f8")).unwrap();
    }
}

#[test]
fn guest_changes_are_committed_repeatedly() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let (host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    vfs.write_file(root, "changed.txt", b"new contents").unwrap();
    vfs.write_file(root, "new/below/file.txt", b"created").unwrap();
    vfs.unlink(top, b"held/gone.txt").unwrap();
    vfs.rename(top, b"held/old", top, b"new/moved").unwrap();
    vfs.symlink(b"../untouched.txt", top, b"new/link").unwrap();
    let before = state(dir.path());
    assert_eq!(before.len(), 10);
    commit_root(&host, &mut vfs, root).unwrap();

    let mut expected = before;
    for gone in ["held/gone.txt", "held/old", "held/old/deep", "held/old/deep/gone.txt"] {
        expected.remove(gone).unwrap();
    }
    for (path, node) in [
        ("changed.txt", file(b"new contents")),
        ("new", Node::Dir),
        ("new/below", Node::Dir),
        ("new/below/file.txt", file(b"created")),
        ("new/link", Node::Link("../untouched.txt".into())),
        ("new/moved", Node::Dir),
        ("new/moved/deep", Node::Dir),
        ("new/moved/deep/gone.txt", file(b"deep gone")),
    ] {
        expected.insert(path.into(), node);
    }
    assert_eq!(state(dir.path()), expected);

    // Commit without changes, then with changes to files that were committed, moved or mounted earlier.
    assert!(commit_root(&host, &mut vfs, root).unwrap().is_empty());
    vfs.write_file(root, "new/below/file.txt", b"again").unwrap();
    vfs.write_file(root, "new/moved/deep/gone.txt", b"again").unwrap();
    vfs.write_file(root, "changed.txt", b"again").unwrap();
    vfs.unlink(top, b"new/link").unwrap();
    commit_root(&host, &mut vfs, root).unwrap();
    for path in ["new/below/file.txt", "new/moved/deep/gone.txt", "changed.txt"] {
        expected.insert(path.into(), file(b"again"));
    }
    expected.remove("new/link");
    assert_eq!(state(dir.path()), expected);
}

#[test]
fn uncommitted_changes_never_reach_the_host() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let before = state(dir.path());
    let (_host, mut vfs, root) = mounted(dir.path());
    vfs.write_file(root, "changed.txt", b"x").unwrap();
    vfs.remove(root, "held").unwrap();
    assert_eq!(state(dir.path()), before);
    drop(vfs);
    assert_eq!(state(dir.path()), before);
}

#[test]
fn appends_by_guest_and_host_conflict() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let (host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let opened = vfs.open(top, b"changed.txt", options).unwrap();
    vfs.append(opened.inode, b" and more").unwrap();
    fs::write(dir.path().join("changed.txt"), "old, host's").unwrap();
    let before = state(dir.path());
    match commit_root(&host, &mut vfs, root) {
        Err(MountError::Conflict { path, collision }) => {
            assert_eq!((path.as_str(), collision), ("changed.txt", Collision::Changed));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(state(dir.path()), before);
}

#[test]
fn moved_file_removed_by_the_host_fails_the_commit() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let (host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    vfs.rename(top, b"held/gone.txt", top, b"moved.txt").unwrap();
    fs::remove_file(dir.path().join("held/gone.txt")).unwrap();
    let before = state(dir.path());
    match commit_root(&host, &mut vfs, root) {
        Err(MountError::Contents { path, .. }) => assert_eq!(path, "moved.txt"),
        other => panic!("{other:?}"),
    }
    assert_eq!(state(dir.path()), before);
}

#[test]
fn a_guest_cannot_plant_a_journal() {
    let dir = tempdir().unwrap();
    sample(dir.path());
    let before = state(dir.path());
    let (host, mut vfs, root) = mounted(dir.path());
    let planted = ".glovebox-commit-0123456789abcdef/journal";
    if vfs.write_file(root, planted, b"glovebox-commit 1").is_ok() {
        let error = commit_root(&host, &mut vfs, root).unwrap_err();
        assert!(matches!(error, MountError::ReservedName { .. }), "{error}");
    }
    assert_eq!(state(dir.path()), before);
}

#[test]
fn host_links_do_not_lead_out() {
    let outside = tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s3cret").unwrap();
    let dir = tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("passwd")).unwrap();
    let (host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    for path in ["out/secret", "passwd", "out/../passwd", "out/new"] {
        let options = OpenOptions { create: true, write: true, ..OpenOptions::default() };
        assert!(vfs.open(top, path.as_bytes(), options).is_err(), "{path}");
        assert!(vfs.lookup(top, path.as_bytes(), Follow::Yes).is_err(), "{path}");
    }
    commit_root(&host, &mut vfs, root).unwrap();
    assert_eq!(state(outside.path()).len(), 1);
}

#[test]
fn huge_host_file_is_read_through_a_small_cache() {
    let dir = tempdir().unwrap();
    let big = fs::File::create(dir.path().join("big")).unwrap();
    big.set_len(8 << 30).unwrap();
    let (_host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    let inode = vfs.lookup(top, b"big", Follow::No).unwrap();
    assert_eq!(vfs.stat(inode).unwrap().size_bytes, 8 << 30);
    let mut buffer = vec![1; 64 << 10];
    for chunk in 0..1024_u64 {
        let mut done = 0;
        while done < buffer.len() {
            let at = (chunk << 20) + u64::try_from(done).unwrap();
            done += vfs.read_at(inode, at, &mut buffer[done..]).unwrap();
        }
        assert!(vfs.bytes_used() < 16 << 20);
    }
    assert!(buffer.iter().all(|byte| *byte == 0));
}

#[test]
fn too_deep_host_tree_is_an_error() {
    let dir = tempdir().unwrap();
    let made = std::process::Command::new("python3")
        .args(["-c", "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"])
        .current_dir(dir.path())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: `python3` is missing, which creates the nested directories");
        return;
    }
    let (host, mut vfs, root) = mounted(dir.path());
    let top = vfs.root_dir(root).unwrap();
    let mut at = top;
    let mut depth = 0;
    let stopped = loop {
        match vfs.lookup(at, b"d", Follow::No) {
            Ok(below) => at = below,
            Err(error) => break error,
        }
        depth += 1;
    };
    assert!((100..1500).contains(&depth), "{depth}");
    assert_eq!(stopped, VfsError::NameTooLong);
    // The guest may fail to remove the directories below this depth, but the host directory must stay consistent.
    let _ = vfs.remove(root, "d");
    let _ = commit_root(&host, &mut vfs, root);
    writable(dir.path());
}
