//! Tests of archives that Glovebox and other programs write.

use std::process::Command;

use glovebox_vfs::VfsLimits;

use super::{FileError, FilesError, IfExists, Space, refusal};

fn sample() -> Space {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let mut space = Space::holding(&[
        ("a.txt", "A"),
        ("empty", ""),
        ("dir/b.bin", "\0\u{1}binary"),
        ("dir-2/c", "C"),
        ("back\\slash", "8"),
        ("line\nbreak", "7"),
        ("ünïcödé/ñ", "n"),
        ("..dots", "."),
        (&long, "long"),
        (&format!("{}é", "x".repeat(99)), "cut inside a character"),
    ]);
    space.write("big", &"0123456789".repeat(100_000));
    space.link("dir/link", "../a.txt");
    space.link("odd-link", "./dir//b.bin");
    space.link("long-link", &format!("{}/x", "t".repeat(250)));
    space.hard_link("dir/hard", "a.txt");
    space.vfs.create_dir(space.top(), b"empty-dir").unwrap();
    space
}

#[test]
fn archive_round_trip_is_exact() {
    let space = sample();
    let archive = space.export();
    let mut back = Space::new();
    let report = back.import(&archive, IfExists::Fail).unwrap();
    assert_eq!(back.paths(), space.paths());
    for entry in space.files().list("**").unwrap() {
        let again = back.files().stat(&entry.path).unwrap();
        assert_eq!((again.kind, again.size_bytes), (entry.kind, entry.size_bytes), "{}", entry.path);
        if entry.kind == glovebox_vfs::FileKind::File {
            assert_eq!(back.text(&entry.path), space.text(&entry.path));
        }
    }
    assert_eq!(back.export(), archive);
    let inode = |path| back.vfs.clone().file_stat(back.root, path).unwrap().inode;
    assert_eq!(inode("dir/hard"), inode("a.txt"));
    assert_eq!((report.file_count, report.directory_count, report.link_count, report.skipped_count), (12, 5, 3, 0));
}

#[test]
fn equal_workspaces_give_equal_archives() {
    let mut other = Space::holding(&[("z", "old"), ("b/2", "2")]);
    other.write("a", "1");
    other.write("z", "3");
    let space = Space::holding(&[("a", "1"), ("b/2", "2"), ("z", "3")]);
    assert_eq!(space.export(), other.export());
    assert_eq!(space.export(), space.export());
}

#[test]
fn archive_contains_no_host_metadata() {
    let archive = Space::holding(&[("a", "1"), ("d/b", "2")]).export();
    let mut archive = tar::Archive::new(&archive[..]);
    for entry in archive.entries().unwrap() {
        let header = entry.unwrap().header().clone();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 1_700_000_000));
        assert_eq!(header.username().unwrap().unwrap(), "");
        let mode = if header.entry_type().is_dir() { 0o755 } else { 0o644 };
        assert_eq!(header.mode().unwrap(), mode);
    }
}

#[test]
fn import_is_atomic_and_replaces_only_if_allowed() {
    let archive = Space::holding(&[("a", "new"), ("b", "new"), ("c/d", "new")]).export();
    let mut space = Space::holding(&[("b", ""), ("c/held", "held")]);
    let refused = space.import(&archive, IfExists::Fail);
    assert!(matches!(&refused, Err(FilesError::Workspace(FileError::Exists { path })) if path == "b"), "{refused:?}");
    assert_eq!(space.paths(), ["b", "c", "c/held"]);
    space.import(&archive, IfExists::Replace).unwrap();
    assert_eq!(space.paths(), ["a", "b", "c", "c/d", "c/held"]);
    assert_eq!((space.text("b"), space.text("c/held")), ("new".into(), "held".into()));
}

#[test]
fn replaced_file_differs_from_the_open_one() {
    let archive = Space::holding(&[("f", "new")]).export();
    let mut space = Space::holding(&[("f", "old")]);
    space.hard_link("other-name", "f");
    space.import(&archive, IfExists::Replace).unwrap();
    assert_eq!((space.text("f"), space.text("other-name")), ("new".into(), "old".into()));
}

#[test]
fn import_over_the_quota_changes_nothing() {
    let archive = Space::holding(&[("a", "1"), ("b", "2"), ("c", "3")]).export();
    for (inodes, fits) in [(2, false), (3, true), (4, true)] {
        let mut space = Space::with(VfsLimits { inodes, ..VfsLimits::default() });
        let imported = space.import(&archive, IfExists::Fail);
        assert_eq!(imported.is_ok(), fits, "{inodes}");
        assert_eq!(space.paths().len(), if fits { 3 } else { 0 });
    }
    const FITTING: u64 = 3 * (4_096 + 512 + 256 + 1);
    for (bytes, fits) in [(FITTING - 1, false), (FITTING, true), (FITTING + 1, true)] {
        let mut space = Space::with(VfsLimits { bytes, ..VfsLimits::default() });
        let imported = space.import(&archive, IfExists::Fail);
        assert_eq!(imported.is_ok(), fits, "{bytes}");
        if !fits {
            assert_eq!(refusal(imported), glovebox_vfs::VfsError::NoSpace);
            assert_eq!(space.vfs.bytes_used(), 0);
        }
    }
}

#[test]
fn empty_workspace_round_trips() {
    let archive = Space::new().export();
    assert_eq!(archive.len(), 1_024);
    let mut space = Space::new();
    assert_eq!(space.import(&archive, IfExists::Fail).unwrap(), super::super::CopyReport::default());
    assert_eq!(space.import(b"", IfExists::Fail).unwrap(), super::super::CopyReport::default());
}

/// The system's `tar` must unpack archives from Glovebox, and Glovebox must unpack archives from `tar` in each of its
/// formats.
#[test]
fn archives_are_compatible_with_system_tar() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let long = "l".repeat(150);
    std::fs::create_dir_all(tree.join(&long)).unwrap();
    std::fs::write(tree.join(&long).join("file"), "contents").unwrap();
    std::fs::write(tree.join("plain"), "plain").unwrap();
    std::os::unix::fs::symlink(format!("{long}/file"), tree.join("link")).unwrap();
    std::fs::hard_link(tree.join("plain"), tree.join("plain-too")).unwrap();
    let expected = ["link", &*long, &format!("{long}/file"), "plain", "plain-too"];
    for format in ["gnu", "pax", "ustar"] {
        let packed = Command::new("tar")
            .args(["--format", format, "-cf", "-", "-C"])
            .arg(&tree)
            .arg(".")
            .output()
            .expect("this test needs `tar`; install it");
        if format == "ustar" && !packed.status.success() {
            // `ustar` cannot store a name with more than 100 bytes after the last slash.
            continue;
        }
        let mut space = Space::new();
        space.import(&packed.stdout, IfExists::Fail).unwrap_or_else(|error| panic!("{format}: {error:?}"));
        assert_eq!(space.paths(), expected, "{format}");
        assert_eq!(space.text("link"), "contents");
        assert_eq!(space.text("plain-too"), "plain");
    }
    let ours = sample().export();
    let file = dir.path().join("ours.tar");
    std::fs::write(&file, ours).unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&out).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    for entry in sample().files().list("**").unwrap() {
        assert!(out.join(&entry.path).symlink_metadata().is_ok(), "{}", entry.path);
    }
    assert_eq!(std::fs::read_link(out.join("odd-link")).unwrap().to_str(), Some("./dir//b.bin"));
}
