//! Tests of writing, deleting and renaming files.

use glovebox_vfs::{FileKind, VfsError, VfsLimits};

use super::{FileError, FilesError, IfExists, Space, refusal};

fn exists<T: std::fmt::Debug>(result: Result<T, FilesError>) -> bool {
    matches!(result, Err(FilesError::Workspace(FileError::Exists { .. })))
}

#[test]
fn a_file_is_written_with_the_directories_above_it() {
    let mut space = Space::new();
    space.put("a/b/c.txt", "new", IfExists::Fail).unwrap();
    assert_eq!(space.text("a/b/c.txt"), "new");
    assert_eq!(space.paths(), ["a", "a/b", "a/b/c.txt"]);
}

#[test]
fn existing_files_are_replaced_only_if_allowed() {
    let mut space = Space::holding(&[("full", "old"), ("empty", ""), ("dir/x", "")]);
    space.link("dangling", "nowhere");
    for path in ["full", "empty", "dangling", "dir", "dir/x"] {
        assert!(exists(space.put(path, "new", IfExists::Fail)), "{path}");
    }
    assert_eq!(space.text("full"), "old");
    assert_eq!(space.text("empty"), "");
    space.put("full", "new", IfExists::Replace).unwrap();
    space.put("empty", "new too", IfExists::Replace).unwrap();
    assert_eq!((space.text("full"), space.text("empty")), ("new".into(), "new too".into()));
    assert_eq!(refusal(space.put("dir", "new", IfExists::Replace)), VfsError::IsADirectory);
}

#[test]
fn a_write_cannot_leave_the_workspace() {
    let mut space = Space::new();
    space.link("up", "..");
    for path in ["../x", "/x", "/app/x", "a/../../x", "a\0", "", "."] {
        assert!(
            matches!(space.put(path, "x", IfExists::Replace), Err(FilesError::Workspace(FileError::Path { .. }))),
            "{path}"
        );
    }
    for path in ["up/x", "up"] {
        assert_eq!(refusal(space.put(path, "x", IfExists::Replace)), VfsError::NotCapable, "{path}");
    }
    assert_eq!(space.paths(), ["up"]);
}

#[test]
fn write_over_the_quota_changes_nothing() {
    // An inode of 512 bytes, a directory entry of 256 bytes plus its name, and a chunk of 4,096 bytes.
    const FITTING: u64 = 512 + 256 + 1 + 4_096;
    for (bytes, fits) in [(FITTING - 1, false), (FITTING, true), (FITTING + 1, true)] {
        let mut space = Space::with(VfsLimits { bytes, ..VfsLimits::default() });
        let put = space.put("f", &"x".repeat(4_096), IfExists::Fail);
        assert_eq!(put.is_ok(), fits, "{bytes}");
        if !fits {
            assert_eq!(refusal(put), VfsError::NoSpace);
            assert_eq!(space.vfs.bytes_used(), 0);
        }
    }
    for (inodes, fits) in [(2, false), (3, true), (4, true)] {
        let mut space = Space::with(VfsLimits { inodes, ..VfsLimits::default() });
        let put = space.put("a/b/c", "", IfExists::Fail);
        assert_eq!(put.is_ok(), fits, "{inodes}");
        assert_eq!(space.paths().len(), if fits { 3 } else { 0 });
    }
}

#[test]
fn write_over_the_quota_keeps_the_old_file() {
    let mut space = Space::with(VfsLimits { bytes: 20_000, ..VfsLimits::default() });
    space.put("held", "old", IfExists::Fail).unwrap();
    assert_eq!(refusal(space.put("held", &"x".repeat(30_000), IfExists::Replace)), VfsError::NoSpace);
    assert_eq!(refusal(space.put("new/dir/file", &"x".repeat(30_000), IfExists::Fail)), VfsError::NoSpace);
    assert_eq!(space.text("held"), "old");
    assert_eq!(space.paths(), ["held"]);
    space.put("small", "x", IfExists::Fail).unwrap();
}

#[test]
fn name_and_path_lengths_are_limited() {
    let mut space = Space::new();
    space.put(&"n".repeat(255), "", IfExists::Fail).unwrap();
    assert_eq!(refusal(space.put(&"n".repeat(256), "", IfExists::Fail)), VfsError::NameTooLong);
    let longest = format!("{}/{}", vec!["d".repeat(254); 16].join("/"), "f".repeat(16));
    assert_eq!(longest.len(), 4_096);
    space.put(&longest, "", IfExists::Fail).unwrap();
    assert_eq!(refusal(space.put(&format!("{longest}f"), "", IfExists::Fail)), VfsError::NameTooLong);
}

#[test]
fn nonempty_directory_needs_recursive_delete() {
    let mut space = Space::holding(&[("f", ""), ("dir/a", ""), ("dir/b/c", "")]);
    space.link("to-dir", "dir");
    assert_eq!(refusal(space.delete("dir")), VfsError::NotEmpty);
    space.delete("dir/b/c").unwrap();
    space.delete("dir/b").unwrap();
    // Deletes the link, not its target.
    space.delete("to-dir").unwrap();
    assert_eq!(space.paths(), ["dir", "dir/a", "f"]);
    space.delete_all("dir").unwrap();
    space.delete_all("f").unwrap();
    assert_eq!(space.paths(), [""; 0]);
    assert_eq!(refusal(space.delete("f")), VfsError::NotFound);
    assert_eq!(refusal(space.delete_all("f")), VfsError::NotFound);
}

#[test]
fn the_workspace_itself_cannot_be_deleted_or_renamed() {
    let mut space = Space::holding(&[("dir/f", "")]);
    for path in [".", "", "./", "dir/..", "..", "/", "/app"] {
        for result in [
            space.delete(path),
            space.delete_all(path),
            space.rename(path, "elsewhere", IfExists::Fail),
            space.rename("dir", path, IfExists::Replace),
        ] {
            assert!(matches!(result, Err(FilesError::Workspace(FileError::Path { .. }))), "{path}");
        }
    }
    assert_eq!(space.paths(), ["dir", "dir/f"]);
}

#[test]
fn the_deepest_tree_is_deleted() {
    let mut space = Space::new();
    let deepest = vec!["d"; 256].join("/");
    space.put(&format!("{deepest}/f"), "", IfExists::Fail).unwrap();
    assert_eq!(refusal(space.put(&format!("{deepest}/d/f"), "", IfExists::Fail)), VfsError::NameTooLong);
    space.delete_all("d").unwrap();
    assert_eq!(space.paths(), [""; 0]);
}

#[test]
fn a_deletion_through_a_link_stays_inside() {
    let mut space = Space::holding(&[("dir/f", "")]);
    space.link("to-dir", "dir");
    space.link("up", "..");
    assert_eq!(refusal(space.delete_all("up/etc")), VfsError::NotCapable);
    space.delete("to-dir/f").unwrap();
    assert_eq!(space.paths(), ["dir", "to-dir", "up"]);
}

#[test]
fn a_rename_replaces_only_when_allowed() {
    let mut space = Space::holding(&[("a", "A"), ("b", "B"), ("dir/f", "F")]);
    assert!(exists(space.rename("a", "b", IfExists::Fail)));
    space.rename("a", "b", IfExists::Replace).unwrap();
    assert_eq!(space.text("b"), "A");
    space.rename("dir", "moved", IfExists::Fail).unwrap();
    assert_eq!(space.text("moved/f"), "F");
    assert_eq!(refusal(space.rename("b", "no/such/dir", IfExists::Fail)), VfsError::NotFound);
    assert_eq!(refusal(space.rename("gone", "x", IfExists::Fail)), VfsError::NotFound);
    assert_eq!(refusal(space.rename("moved", "moved/below", IfExists::Fail)), VfsError::Invalid);
}

#[test]
fn an_open_file_outlives_its_deletion() {
    let mut space = Space::holding(&[("f", "held")]);
    let inode = space.vfs.file_stat(space.root, "f").unwrap().inode;
    // Retains the inode, like an open descriptor in the guest.
    space.vfs.retain(inode).unwrap();
    space.delete("f").unwrap();
    space.put("f", "another", IfExists::Fail).unwrap();
    let mut bytes = [0; 4];
    assert_eq!(space.vfs.read_at(inode, 0, &mut bytes).unwrap(), 4);
    assert_eq!(&bytes, b"held");
    space.vfs.release(inode);
    assert_eq!(space.vfs.stat(inode), Err(VfsError::BadInode));
}

#[test]
fn rename_never_replaces_another_kind() {
    let mut space = Space::holding(&[("f", ""), ("dir/x", ""), ("empty/x", "")]);
    space.delete("empty/x").unwrap();
    assert_eq!(refusal(space.rename("f", "dir", IfExists::Replace)), VfsError::IsADirectory);
    assert_eq!(refusal(space.rename("dir", "f", IfExists::Replace)), VfsError::NotADirectory);
    assert_eq!(refusal(space.rename("empty", "dir", IfExists::Replace)), VfsError::NotEmpty);
    assert_eq!(space.files().stat("dir").unwrap().kind, FileKind::Directory);
}
