use glovebox_vfs::{Access, Follow, VfsError, VfsLimits};

use super::{fresh, touch, with_limits};

#[test]
fn hard_links_share_the_content_and_are_counted() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "a", b"one").unwrap();
    vfs.create_dir(top, b"d").unwrap();
    vfs.link(top, b"a", Follow::No, top, b"d/b").unwrap();
    let file = vfs.lookup(top, b"a", Follow::No).unwrap();
    assert_eq!(vfs.stat(file).unwrap().links, 2);
    vfs.write_at(file, 0, b"two").unwrap();
    assert_eq!(vfs.read_file(root, "d/b", 9).unwrap(), b"two");
    vfs.unlink(top, b"a").unwrap();
    assert_eq!(vfs.stat(file).unwrap().links, 1);
    assert_eq!(vfs.path_of(file).as_deref(), Some("d/b"));
}

#[test]
fn invalid_hard_links_are_rejected() {
    let (mut vfs, _, top) = fresh();
    vfs.create_dir(top, b"d").unwrap();
    touch(&mut vfs, top, "f").unwrap();
    vfs.symlink(b"f", top, b"l").unwrap();
    for (from, to, expected) in [
        (&b"d"[..], &b"x"[..], VfsError::NotPermitted),
        (b"f", b"d", VfsError::AlreadyExists),
        (b"f", b".", VfsError::AlreadyExists),
        (b"f", b"x/", VfsError::NotFound),
        (b"f/", b"x", VfsError::NotADirectory),
        (b"no", b"x", VfsError::NotFound),
    ] {
        assert_eq!(vfs.link(top, from, Follow::No, top, to), Err(expected));
    }
    vfs.link(top, b"l", Follow::No, top, b"l2").unwrap();
    assert_eq!(&*vfs.read_link(top, b"l2").unwrap(), "f");
    vfs.link(top, b"l", Follow::Yes, top, b"f2").unwrap();
    assert_eq!(vfs.read_link(top, b"f2"), Err(VfsError::Invalid));
}

#[test]
fn number_of_hard_links_is_limited() {
    let (mut vfs, _, top) = fresh();
    touch(&mut vfs, top, "f").unwrap();
    let used = vfs.inodes_used();
    for n in 1..1_024 {
        vfs.link(top, b"f", Follow::No, top, format!("l{n}").as_bytes()).unwrap();
    }
    assert_eq!(vfs.inodes_used(), used + 1_023);
    assert_eq!(vfs.link(top, b"f", Follow::No, top, b"more"), Err(VfsError::TooManyLinks));
    vfs.unlink(top, b"l7").unwrap();
    vfs.link(top, b"f", Follow::No, top, b"more").unwrap();
}

#[test]
fn relative_symlinks_are_stored_verbatim() {
    let (mut vfs, _, top) = fresh();
    vfs.symlink(b"../..//odd/./x/", top, b"l").unwrap();
    assert_eq!(&*vfs.read_link(top, b"l").unwrap(), "../..//odd/./x/");
    let long = vec![b'x'; 4_097];
    for (target, path, expected) in [
        (&b"/etc/passwd"[..], &b"m"[..], VfsError::NotCapable),
        (b"", b"m", VfsError::NotFound),
        (b"a\0", b"m", VfsError::Invalid),
        (b"\xff", b"m", VfsError::IllegalBytes),
        (&long, b"m", VfsError::NameTooLong),
        (b"x", b"l", VfsError::AlreadyExists),
        (b"x", b"m/", VfsError::NotFound),
        (b"x", b".", VfsError::AlreadyExists),
    ] {
        assert_eq!(vfs.symlink(target, top, path), Err(expected));
    }
    assert_eq!(vfs.read_link(top, b"."), Err(VfsError::Invalid));
}

#[test]
fn removal_checks_the_file_kind() {
    let (mut vfs, _, top) = fresh();
    vfs.create_dir(top, b"d").unwrap();
    vfs.create_dir(top, b"d/e").unwrap();
    touch(&mut vfs, top, "f").unwrap();
    vfs.symlink(b"d", top, b"l").unwrap();
    for (path, rmdir, unlink) in [
        (&b"d"[..], VfsError::NotEmpty, VfsError::IsADirectory),
        (b"f/", VfsError::NotADirectory, VfsError::NotADirectory),
        (b"l/", VfsError::NotADirectory, VfsError::NotADirectory),
        (b".", VfsError::Invalid, VfsError::IsADirectory),
        (b"d/..", VfsError::NotEmpty, VfsError::IsADirectory),
        (b"no", VfsError::NotFound, VfsError::NotFound),
    ] {
        assert_eq!(vfs.remove_dir(top, path), Err(rmdir));
        assert_eq!(vfs.unlink(top, path), Err(unlink));
    }
    vfs.unlink(top, b"l").unwrap();
    vfs.remove_dir(top, b"d/e/").unwrap();
    vfs.remove_dir(top, b"d").unwrap();
}

#[test]
fn a_directory_does_not_move_into_itself() {
    let (mut vfs, _, top) = fresh();
    vfs.create_dir(top, b"a").unwrap();
    let b = vfs.create_dir(top, b"a/b").unwrap();
    assert_eq!(vfs.rename(top, b"a", top, b"a/x"), Err(VfsError::Invalid));
    assert_eq!(vfs.rename(top, b"a", top, b"a/b/x"), Err(VfsError::Invalid));
    assert_eq!(vfs.rename(top, b"a", b, b"x"), Err(VfsError::Invalid));
    assert_eq!(vfs.rename(top, b"a/b", top, b"a"), Err(VfsError::NotEmpty));
    assert_eq!(vfs.rename(top, b".", top, b"x"), Err(VfsError::Invalid));
    assert_eq!(vfs.rename(top, b"a/b/..", top, b"x"), Err(VfsError::Invalid));
    assert_eq!(vfs.rename(top, b"a", top, b"a"), Ok(()));
}

#[test]
fn rename_replaces_only_the_same_kind() {
    let (mut vfs, root, top) = fresh();
    for dir in [&b"empty"[..], b"full", b"dir"] {
        vfs.create_dir(top, dir).unwrap();
    }
    touch(&mut vfs, top, "full/x").unwrap();
    vfs.write_file(root, "f", b"f").unwrap();
    vfs.write_file(root, "g", b"g").unwrap();
    vfs.symlink(b"full", top, b"l").unwrap();
    assert_eq!(vfs.rename(top, b"dir", top, b"full"), Err(VfsError::NotEmpty));
    assert_eq!(vfs.rename(top, b"dir", top, b"f"), Err(VfsError::NotADirectory));
    assert_eq!(vfs.rename(top, b"f", top, b"empty"), Err(VfsError::IsADirectory));
    assert_eq!(vfs.rename(top, b"f", top, b"new/"), Err(VfsError::NotADirectory));
    assert_eq!(vfs.rename(top, b"f/", top, b"new"), Err(VfsError::NotADirectory));
    assert_eq!(vfs.rename(top, b"no", top, b"new"), Err(VfsError::NotFound));
    vfs.rename(top, b"dir/", top, b"empty/").unwrap();
    vfs.rename(top, b"f", top, b"g").unwrap();
    assert_eq!(vfs.read_file(root, "g", 9).unwrap(), b"f");
    // Renaming affects a symlink itself, not its target.
    vfs.rename(top, b"l", top, b"m").unwrap();
    assert_eq!(&*vfs.read_link(top, b"m").unwrap(), "full");
    vfs.rename(top, b"g", top, b"m").unwrap();
    assert_eq!(vfs.read_file(root, "m", 9).unwrap(), b"f");
    assert!(vfs.lookup(top, b"full/x", Follow::No).is_ok());
}

#[test]
fn rename_between_names_of_one_file_keeps_both() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "a", b"1").unwrap();
    vfs.link(top, b"a", Follow::No, top, b"b").unwrap();
    vfs.rename(top, b"a", top, b"b").unwrap();
    assert_eq!(vfs.list(root, "/").unwrap().len(), 2);
}

#[test]
fn rename_between_roots_is_rejected() {
    let (mut vfs, _, top) = fresh();
    let other = vfs.add_root(Access::ReadWrite);
    let other = vfs.root_dir(other).unwrap();
    touch(&mut vfs, top, "f").unwrap();
    assert_eq!(vfs.rename(top, b"f", other, b"f"), Err(VfsError::CrossRoot));
    assert_eq!(vfs.link(top, b"f", Follow::No, other, b"f"), Err(VfsError::CrossRoot));
}

#[test]
fn removed_directory_accepts_no_entries() {
    let (mut vfs, _, top) = fresh();
    let dir = vfs.create_dir(top, b"d").unwrap();
    vfs.retain(dir).unwrap();
    touch(&mut vfs, top, "f").unwrap();
    vfs.remove_dir(top, b"d").unwrap();
    assert_eq!(touch(&mut vfs, dir, "x"), Err(VfsError::NotFound));
    assert_eq!(vfs.create_dir(dir, b"x"), Err(VfsError::NotFound));
    assert_eq!(vfs.symlink(b"x", dir, b"x"), Err(VfsError::NotFound));
    assert_eq!(vfs.rename(top, b"f", dir, b"x"), Err(VfsError::NotFound));
    assert_eq!(vfs.link(top, b"f", Follow::No, dir, b"x"), Err(VfsError::NotFound));
    assert!(vfs.read_dir(dir, 0, 9).unwrap().is_empty());
    assert_eq!(vfs.stat(dir).unwrap().links, 0);
    assert_eq!(vfs.path_of(dir), None);
    vfs.release(dir);
    assert_eq!(vfs.stat(dir), Err(VfsError::BadInode));
}

#[test]
fn rename_respects_the_depth_limit() {
    let (mut vfs, _, top) = with_limits(VfsLimits { depth: 4, ..VfsLimits::default() });
    for dir in [&b"a"[..], b"a/b", b"a/b/c", b"x", b"x/y"] {
        vfs.create_dir(top, dir).unwrap();
    }
    assert_eq!(vfs.rename(top, b"x", top, b"a/b/c/x"), Err(VfsError::NameTooLong));
    vfs.rename(top, b"x", top, b"a/b/x").unwrap();
    assert_eq!(vfs.create_dir(top, b"a/b/x/y/z"), Err(VfsError::NameTooLong));
    touch(&mut vfs, top, "a/b/x/y/file").unwrap();
}

#[test]
fn a_rename_at_the_full_quota_never_passes_it() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "a", b"x").unwrap();
    vfs.write_file(root, "b", b"x").unwrap();
    let used = vfs.bytes_used();
    let (mut vfs, root, top2) = with_limits(VfsLimits { bytes: used, ..VfsLimits::default() });
    assert_eq!(top, top2);
    vfs.write_file(root, "a", b"x").unwrap();
    vfs.write_file(root, "b", b"x").unwrap();
    assert_eq!(vfs.rename(top, b"a", top, b"longer"), Err(VfsError::NoSpace));
    vfs.rename(top, b"a", top, b"c").unwrap();
    vfs.rename(top, b"c", top, b"b").unwrap();
    assert_eq!(vfs.peak_bytes(), used);
}
