//! Tests of saving and restoring a file system.

use std::{collections::BTreeSet, sync::Arc};

use glovebox_vfs::{Access, InodeId, OpenOptions, RestoreError, RootId, Vfs, VfsError, VfsLimits};

use super::{CREATE, fresh, touch, with_limits};
use crate::support::{FakeHost, HostNode};

pub(crate) fn none() -> BTreeSet<InodeId> {
    BTreeSet::new()
}

pub(crate) fn mounted(host: &Arc<FakeHost>, access: Access) -> (Vfs, RootId, InodeId) {
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = vfs.add_mount(host.clone(), access).unwrap();
    let dir = vfs.root_dir(root).unwrap();
    (vfs, root, dir)
}

pub(crate) fn refused(vfs: &mut Vfs, saved: &[u8], open: &[u64]) -> RestoreError {
    let before = vfs.save(&none());
    let error = vfs.restore(saved, open).unwrap_err();
    assert_eq!(vfs.save(&none()), before, "a rejected state changes nothing");
    error
}

#[test]
fn holes_are_neither_saved_nor_filled() {
    let (mut vfs, root, top) = fresh();
    let opened = vfs.open(top, b"sparse", CREATE).unwrap();
    vfs.write_at(opened.inode, 20_000_000, b"end").unwrap();
    vfs.write_at(opened.inode, 8_192, &[0; 8_192]).unwrap();
    vfs.release(opened.inode);
    let saved = vfs.save(&none());
    assert!(saved.len() < 2 * 4_096, "{}", saved.len());
    let (mut again, ..) = fresh();
    again.restore(&saved, &[]).unwrap();
    assert_eq!(again.bytes_used(), vfs.bytes_used(), "a hole is charged like data");
    let content = again.read_file(root, "sparse", 1 << 30).unwrap();
    assert!(content.len() == 20_000_003 && content.ends_with(b"\0end"));
}

#[test]
fn equal_trees_serialize_to_equal_bytes() {
    let (mut one, root, top) = fresh();
    one.write_file(root, "file", &[7; 10_000]).unwrap();
    let (mut other, ..) = fresh();
    let opened = other.open(top, b"file", CREATE).unwrap();
    for at in (0..10_000).rev().step_by(500) {
        other.write_at(opened.inode, at - 499, &[7; 500]).unwrap();
    }
    other.set_len(opened.inode, 30_000).unwrap();
    other.set_len(opened.inode, 10_000).unwrap();
    other.release(opened.inode);
    assert_eq!(one.save(&none()), other.save(&none()));
}

#[test]
fn directory_listing_continues_after_restore() {
    let (mut vfs, root, top) = fresh();
    for name in ["a", "b", "c", "d"] {
        touch(&mut vfs, top, name).unwrap();
    }
    vfs.remove(root, "b").unwrap();
    let first = vfs.read_dir(top, 0, 3).unwrap();
    let (mut again, ..) = fresh();
    again.restore(&vfs.save(&none()), &[]).unwrap();
    let cookie = first.last().unwrap().next_cookie;
    touch(&mut again, top, "e").unwrap();
    let rest: Vec<_> = again.read_dir(top, cookie, 9).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(rest, ["c".into(), "d".into()] as [Arc<str>; 2], "{first:?}");
}

#[test]
fn only_changes_to_a_mount_are_saved() {
    let host = Arc::new(FakeHost::default());
    host.dir("big");
    for number in 0..2_000 {
        host.file(&format!("big/{number}"), &[1; 100]);
    }
    host.file("other", &[2; 50_000]);
    let (mut vfs, root, _) = mounted(&host, Access::ReadWrite);
    let untouched = vfs.save(&none());
    vfs.list(root, "big").unwrap();
    vfs.read_file(root, "other", 1 << 20).unwrap();
    let looked = vfs.save(&none()).len();
    assert!(looked <= untouched.len() + 2, "reading changes only the next inode number");
    vfs.write_file(root, "big/7", b"seven").unwrap();
    vfs.remove(root, "big/8").unwrap();
    vfs.write_file(root, "big/new", b"new").unwrap();
    let saved = vfs.save(&none());
    assert!(saved.len() < 1_000, "{}", saved.len());

    // In the meantime, other programs change the host directory.
    host.file("big/9", b"nine, by others");
    host.file("big/more", b"more");
    host.remove("big/10");
    let (mut again, ..) = mounted(&host, Access::ReadWrite);
    again.restore(&saved, &[]).unwrap();
    assert_eq!(again.commit_plan(root), vfs.commit_plan(root), "the plan contains the same bases");
    assert_eq!(again.read_file(root, "big/7", 99).unwrap(), b"seven");
    assert_eq!(again.read_file(root, "big/9", 99).unwrap(), b"nine, by others");
    assert_eq!(again.read_file(root, "big/more", 99).unwrap(), b"more");
    for gone in ["big/8", "big/10"] {
        assert!(!again.exists(root, gone).unwrap(), "{gone}");
    }
    assert_eq!(again.list(root, "big").unwrap().len(), 2_000);
    // Skip the version, the time and the number of the next inode.
    assert_eq!(again.save(&none())[11..], saved[11..], "listing the other directories does not change the saved state");
}

#[test]
fn committed_files_are_read_from_the_source() {
    let host = Arc::new(FakeHost::default());
    host.file("f", b"old");
    let (mut vfs, root, _) = mounted(&host, Access::ReadWrite);
    let untouched = vfs.save(&none()).len();
    vfs.write_file(root, "f", &[1; 10_000]).unwrap();
    vfs.write_file(root, "new/dir/g", &[2; 10_000]).unwrap();
    let plan = vfs.commit_plan(root);
    let written = host.apply(&mut vfs, &plan);
    vfs.mark_committed(root, written).unwrap();
    let saved = vfs.save(&none());
    assert!(saved.len() <= untouched + 1);
    host.file("f", b"newer");
    let (mut again, ..) = mounted(&host, Access::ReadWrite);
    again.restore(&saved, &[]).unwrap();
    assert_eq!(again.read_file(root, "f", 1 << 20).unwrap(), b"newer");
    assert_eq!(again.read_file(root, "new/dir/g", 1 << 20).unwrap(), [2; 10_000]);
    assert!(again.bytes_used() < 10_000, "files that are only mounted are not charged: {}", again.bytes_used());
}

#[test]
fn renamed_mount_directory_is_read_from_its_old_path() {
    let host = Arc::new(FakeHost::default());
    host.dir("d");
    host.dir("d/e");
    host.file("d/e/f", b"content");
    host.put("d/l", HostNode::Link("e/f".into()));
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite);
    vfs.rename(top, b"d", top, b"moved").unwrap();
    let opened = vfs.open(top, b"moved/e/f", OpenOptions::default()).unwrap();
    vfs.unlink(top, b"moved/e/f").unwrap();
    let saved = vfs.save(&BTreeSet::from([opened.inode]));
    let (mut again, ..) = mounted(&host, Access::ReadWrite);
    again.restore(&saved, &[opened.inode.get()]).unwrap();
    assert_eq!(again.commit_plan(root), vfs.commit_plan(root));
    assert!(again.exists(root, "moved/e").unwrap() && !again.exists(root, "d").unwrap());
    let mut content = [0; 7];
    again.read_at(opened.inode, 0, &mut content).unwrap();
    assert_eq!(&content, b"content", "an open file without a name is still read from the source");
    again.release(opened.inode);
    assert_eq!(again.stat(opened.inode), Err(VfsError::BadInode));
    again.write_file(root, "moved/l", b"through the link").unwrap();
}

#[test]
fn changes_to_a_now_read_only_mount_are_rejected() {
    let host = Arc::new(FakeHost::default());
    host.file("f", b"old");
    let change: [fn(&mut Vfs, RootId); 3] = [
        |vfs, root| vfs.write_file(root, "f", b"new").unwrap(),
        |vfs, root| vfs.write_file(root, "g", b"new").unwrap(),
        |vfs, root| vfs.remove(root, "f").unwrap(),
    ];
    for change in change {
        let (mut vfs, root, _) = mounted(&host, Access::ReadWrite);
        change(&mut vfs, root);
        let (mut again, ..) = mounted(&host, Access::ReadOnly);
        assert_eq!(refused(&mut again, &vfs.save(&none()), &[]), RestoreError::ReadOnly);
    }
    let (vfs, ..) = mounted(&host, Access::ReadWrite);
    let (mut again, root, _) = mounted(&host, Access::ReadOnly);
    again.restore(&vfs.save(&none()), &[]).unwrap();
    assert_eq!(again.access(root), Some(Access::ReadOnly), "the embedder determines the access");
}

#[test]
fn restore_with_other_roots_is_rejected() {
    let host = Arc::new(FakeHost::default());
    let (plain, ..) = fresh();
    let (with_source, ..) = mounted(&host, Access::ReadWrite);
    let (mut two, ..) = fresh();
    two.add_root(Access::ReadWrite);
    let all = [plain, with_source, two];
    for (index, from) in all.iter().enumerate() {
        for (other, to) in all.iter().enumerate() {
            let mut to = to.clone();
            if index == other {
                to.restore(&from.save(&none()), &[]).unwrap();
            } else {
                assert_eq!(refused(&mut to, &from.save(&none()), &[]), RestoreError::OtherRoots);
            }
        }
    }
}

#[test]
fn unknown_format_version_is_rejected() {
    let (vfs, ..) = fresh();
    let mut saved = vfs.save(&none());
    saved[0] = 3;
    assert_eq!(refused(&mut vfs.clone(), &saved, &[]), RestoreError::Version(3));
}

/// Saves the result of `make` and restores it with limits below, at and above the required value.
fn limit(name: &'static str, needed: u64, set: fn(&mut VfsLimits, u64), make: fn(&mut Vfs, RootId)) {
    let (mut vfs, root, _) = fresh();
    make(&mut vfs, root);
    let saved = vfs.save(&none());
    for (value, fits) in [(needed - 1, false), (needed, true), (needed + 1, true)] {
        let mut limits = VfsLimits::default();
        set(&mut limits, value);
        let (mut again, ..) = with_limits(limits);
        if fits {
            again.restore(&saved, &[]).unwrap();
            assert_eq!(again.save(&none()), saved);
        } else {
            assert_eq!(refused(&mut again, &saved, &[]), RestoreError::Limit(name));
        }
    }
}

#[test]
fn every_limit_is_exact_on_restore() {
    // The charge for an inode, its name, and three chunks.
    limit(
        "bytes",
        512 + 256 + 4 + 3 * 4_096,
        |limits, value| limits.bytes = value,
        |vfs, root| {
            vfs.write_file(root, "file", &[1; 10_000]).unwrap();
        },
    );
    limit(
        "inodes",
        3,
        |limits, value| limits.inodes = value,
        |vfs, root| {
            let top = vfs.root_dir(root).unwrap();
            vfs.write_file(root, "dir/file", b"").unwrap();
            vfs.link(top, b"dir/file", glovebox_vfs::Follow::No, top, b"further name").unwrap();
        },
    );
    limit(
        "name_bytes",
        8,
        |limits, value| limits.name_bytes = value as usize,
        |vfs, root| {
            vfs.write_file(root, "12345678", b"").unwrap();
        },
    );
    limit(
        "depth",
        3,
        |limits, value| limits.depth = value as usize - 1,
        |vfs, root| {
            // Restoring accepts one level more than `depth`, because directories from a source can be that deep.
            vfs.write_file(root, "1/2/3/file", b"").unwrap();
        },
    );
    limit(
        "path_bytes",
        9,
        |limits, value| limits.path_bytes = value as usize,
        |vfs, root| {
            vfs.write_file(root, "1234/6789", b"").unwrap();
        },
    );
    limit(
        "path_bytes",
        12,
        |limits, value| limits.path_bytes = value as usize,
        |vfs, root| {
            vfs.symlink(b"123456789012", vfs.root_dir(root).unwrap(), b"link").unwrap();
        },
    );
}

#[test]
fn memory_limit_is_exact_on_restore() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "file", &[1; 10_000]).unwrap();
    let saved = vfs.save(&none());
    let needed = vfs.bytes_used();
    for (ceiling, fits) in [(needed - 1, false), (needed, true), (needed + 1, true)] {
        let (mut again, ..) = fresh();
        again.set_available_bytes(ceiling);
        if fits {
            again.restore(&saved, &[]).unwrap();
        } else {
            assert_eq!(refused(&mut again, &saved, &[]), RestoreError::Limit("memory"));
        }
    }
}

#[test]
fn mount_entry_limit_is_exact_on_restore() {
    let host = Arc::new(FakeHost::default());
    for number in 0..6 {
        host.file(&format!("{number}"), b"");
    }
    let (mut vfs, root, _) = mounted(&host, Access::ReadWrite);
    // A moved file is known even though its directory is not listed. The limit on known files is twice the limit on
    // listed files.
    let top = vfs.root_dir(root).unwrap();
    for number in 0..6 {
        vfs.rename(top, format!("{number}").as_bytes(), top, format!("moved-{number}").as_bytes()).unwrap();
    }
    let saved = vfs.save(&none());
    for (mount_entries, fits) in [(2, false), (3, true), (4, true)] {
        let mut again = Vfs::new(VfsLimits { mount_entries, ..VfsLimits::default() });
        again.add_mount(host.clone(), Access::ReadWrite).unwrap();
        if fits {
            again.restore(&saved, &[]).unwrap();
        } else {
            assert_eq!(refused(&mut again, &saved, &[]), RestoreError::Limit("mount_entries"));
        }
    }
}

#[test]
fn session_with_a_quota_of_deletions_is_restored() {
    let host = Arc::new(FakeHost::default());
    for number in 0..1_000 {
        host.file(&format!("{number:0>200}"), b"");
    }
    let make = || {
        let mut vfs = Vfs::new(VfsLimits { bytes: 20_000, ..VfsLimits::default() });
        let root = vfs.add_mount(host.clone(), Access::ReadWrite).unwrap();
        (vfs, root)
    };
    let (mut vfs, root) = make();
    vfs.write_file(root, "new", &[1; 15_000]).unwrap();
    for number in 0..1_000 {
        vfs.remove(root, &format!("{number:0>200}")).unwrap();
    }
    assert!(vfs.bytes_used() > 20_000);
    let (mut again, _) = make();
    again.restore(&vfs.save(&none()), &[]).unwrap();
    assert_eq!(again.commit_plan(root).len(), 1_001);
    assert_eq!(again.write_file(root, "more", b"x").map_err(|error| error.reason), Err(VfsError::NoSpace));
}
