use glovebox_vfs::{Access, FileKind, VfsError, VfsLimits};

use crate::{fresh, with_limits};

#[test]
fn paths_of_the_embedder_stay_inside_too() {
    let (mut vfs, root, top) = fresh();
    vfs.symlink(b"../x", top, b"l").unwrap();
    for path in ["..", "/..", "../x", "a/../../x", "l"] {
        let refused = vfs.write_file(root, path, b"x").unwrap_err();
        assert!(matches!(refused.reason, VfsError::NotCapable | VfsError::IsADirectory), "{path}: {refused}");
    }
    let refused = vfs.read_file(root, "/no", 9).unwrap_err();
    assert_eq!(refused.to_string(), "`/no`: no such file or directory");
}

#[test]
fn the_root_is_not_removed_by_a_careless_path() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "d/f", b"x").unwrap();
    for path in ["", "/", ".", "/.", "d/..", "./"] {
        let refused = vfs.remove(root, path).unwrap_err();
        assert_eq!(refused.reason, VfsError::Invalid, "{path}");
    }
    vfs.remove(root, "/d").unwrap();
    assert!(vfs.list(root, "/").unwrap().is_empty());
    assert_eq!(vfs.remove(root, "d").unwrap_err().reason, VfsError::NotFound);
}

#[test]
fn removing_a_symlink_leaves_its_target() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/f", b"x").unwrap();
    vfs.symlink(b"d", top, b"l").unwrap();
    vfs.remove(root, "l").unwrap();
    assert!(vfs.exists(root, "d/f").unwrap());
}

#[test]
fn a_write_that_does_not_fit_leaves_the_old_file() {
    let (mut vfs, root, _) = with_limits(VfsLimits { bytes: 20_000, ..VfsLimits::default() });
    vfs.write_file(root, "f", b"old").unwrap();
    let refused = vfs.write_file(root, "f", &[0; 30_000]).unwrap_err();
    assert_eq!(refused.reason, VfsError::NoSpace);
    assert_eq!(vfs.read_file(root, "f", 9).unwrap(), b"old");
    assert!(vfs.write_file(root, "g", &[0; 30_000]).is_err());
    // Enough space for the data but not for the inode as well.
    vfs.set_available_bytes(vfs.bytes_used() + 8_192 + 700);
    assert!(vfs.write_file(root, "g", &[0; 8_192]).is_err());
    assert!(!vfs.exists(root, "g").unwrap());
    vfs.write_file(root, "f", b"new").unwrap();
}

#[test]
fn reading_more_than_wanted_is_refused() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "f", &[7; 10]).unwrap();
    assert!(vfs.read_file(root, "f", 9).is_err());
    assert_eq!(vfs.read_file(root, "f", 10).unwrap(), [7; 10]);
    vfs.write_file(root, "empty", b"").unwrap();
    assert_eq!(vfs.read_file(root, "empty", 0).unwrap(), b"");
}

#[test]
fn listing_is_sorted_and_complete() {
    let (mut vfs, root, _) = fresh();
    for n in (0..2_500).rev() {
        vfs.write_file(root, &format!("d/{n:04}"), b"").unwrap();
    }
    let listed = vfs.list(root, "/d").unwrap();
    assert_eq!(listed.len(), 2_500);
    assert!(listed.is_sorted_by(|a, b| a.name < b.name));
    assert!(listed.iter().all(|entry| entry.kind == FileKind::File));
}

#[test]
fn an_unknown_root_is_an_error_and_no_panic() {
    let (mut other, _, _) = fresh();
    let unknown = other.add_root(Access::ReadWrite);
    let (mut vfs, root, _) = fresh();
    assert_eq!(vfs.access(unknown), None);
    assert_eq!(vfs.root_dir(unknown), None);
    vfs.set_access(unknown, Access::ReadOnly);
    assert!(vfs.changes(unknown).is_empty());
    assert!(vfs.commit_plan(unknown).is_empty());
    assert_eq!(vfs.mark_committed(unknown, []), Err(VfsError::BadInode));
    assert_eq!(vfs.exists(unknown, "x").unwrap_err().reason, VfsError::BadInode);
    assert_eq!(vfs.access(root), Some(Access::ReadWrite));
}
