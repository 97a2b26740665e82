use glovebox_vfs::{Follow, VfsError};

use crate::{fresh, touch};

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
fn a_link_is_refused_where_it_makes_no_sense() {
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
fn names_of_one_file_under_at_and_over_the_limit() {
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
fn symlinks_stay_as_given_unless_absolute() {
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
fn removal_meets_the_right_kind_only() {
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
