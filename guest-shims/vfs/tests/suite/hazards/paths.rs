use glovebox_vfs::{Access, FileKind, Follow, OpenOptions, VfsError, VfsLimits};

use super::{CREATE, fresh, touch, with_limits};

#[test]
fn no_spelling_of_a_path_leaves_the_directory() {
    let (mut vfs, _, top) = fresh();
    let dir = vfs.create_dir(top, b"d").unwrap();
    touch(&mut vfs, top, "secret").unwrap();
    vfs.symlink(b"../secret", top, b"d/up").unwrap();
    vfs.symlink(b"..", top, b"d/parent").unwrap();
    for path in [
        "..",
        "../secret",
        "./../secret",
        "x/../../secret",
        "/",
        "/secret",
        "//secret",
        "up",
        "parent",
        "parent/secret",
        "parent/d/up",
    ] {
        let expected = if path.starts_with("x/") { VfsError::NotFound } else { VfsError::NotCapable };
        let found = vfs.lookup(dir, path.as_bytes(), Follow::Yes);
        assert_eq!(found, Err(expected), "{path}");
    }
    // Resolved from the parent directory, the same links are valid, because their targets are inside the parent
    // directory.
    let secret = vfs.lookup(top, b"secret", Follow::Yes).unwrap();
    assert_eq!(vfs.lookup(top, b"d/up", Follow::Yes), Ok(secret));
    assert_eq!(vfs.lookup(top, b"d/parent/secret", Follow::Yes), Ok(secret));
    assert_eq!(vfs.lookup(top, b"d/parent/../secret", Follow::Yes), Err(VfsError::NotCapable));
}

#[test]
fn an_absolute_symlink_of_a_host_does_not_reach_the_host() {
    use crate::support::{FakeHost, HostNode};
    let host = std::sync::Arc::new(FakeHost::default());
    host.put("passwd", HostNode::Link("/etc/passwd".into()));
    host.put("up", HostNode::Link("../../etc/passwd".into()));
    host.put("empty", HostNode::Link(String::new()));
    let (mut vfs, _, _) = fresh();
    let root = vfs.add_mount(host, Access::ReadOnly).unwrap();
    let dir = vfs.root_dir(root).unwrap();
    for (path, expected) in
        [(&b"passwd"[..], VfsError::NotCapable), (b"up", VfsError::NotCapable), (b"empty", VfsError::NotFound)]
    {
        assert_eq!(vfs.lookup(dir, path, Follow::Yes), Err(expected));
    }
    assert_eq!(&*vfs.read_link(dir, b"passwd").unwrap(), "/etc/passwd");
}

#[test]
fn malformed_paths_have_distinct_errors() {
    let (mut vfs, _, top) = fresh();
    touch(&mut vfs, top, "f").unwrap();
    for (path, expected) in [
        (&b""[..], VfsError::NotFound),
        (b"a\0b", VfsError::Invalid),
        (b"\xff\xfe", VfsError::IllegalBytes),
        (b"f/", VfsError::NotADirectory),
        (b"f/.", VfsError::NotADirectory),
        (b"f/..", VfsError::NotADirectory),
        (b"f/x", VfsError::NotADirectory),
        (b"no/x", VfsError::NotFound),
        (b"no", VfsError::NotFound),
    ] {
        assert_eq!(vfs.lookup(top, path, Follow::Yes), Err(expected));
    }
    assert_eq!(vfs.lookup(top, b".", Follow::Yes), Ok(top));
    assert_eq!(vfs.lookup(top, b"./", Follow::Yes), Ok(top));
    let file = vfs.lookup(top, b"f", Follow::Yes).unwrap();
    assert_eq!(vfs.lookup(file, b".", Follow::Yes), Err(VfsError::NotADirectory));
    assert_eq!(vfs.lookup(top, b".//.///f", Follow::Yes), Ok(file));
}

#[test]
fn name_and_path_lengths_are_limited() {
    let (mut vfs, _, top) = fresh();
    touch(&mut vfs, top, &"n".repeat(255)).unwrap();
    assert_eq!(touch(&mut vfs, top, &"n".repeat(256)), Err(VfsError::NameTooLong));
    let at = "./".repeat(2_047) + "ff";
    assert_eq!(at.len(), 4_096);
    touch(&mut vfs, top, &at).unwrap();
    let over = "./".repeat(2_047) + "fff";
    assert_eq!(touch(&mut vfs, top, &over), Err(VfsError::NameTooLong));
    touch(&mut vfs, top, "still-usable").unwrap();
}

#[test]
fn path_length_limit_holds_over_renames() {
    let (mut vfs, _, top) = with_limits(VfsLimits { path_bytes: 20, ..VfsLimits::default() });
    let dir = vfs.create_dir(top, b"123456789").unwrap();
    touch(&mut vfs, dir, "1234567890").unwrap();
    assert_eq!(touch(&mut vfs, dir, "12345678901"), Err(VfsError::NameTooLong));
    touch(&mut vfs, top, "12345678901").unwrap();
    assert_eq!(vfs.rename(top, b"12345678901", dir, b"12345678901"), Err(VfsError::NameTooLong));
    assert_eq!(vfs.link(top, b"12345678901", Follow::No, dir, b"12345678901"), Err(VfsError::NameTooLong));
    // A directory's new name affects the path length of everything below it.
    assert_eq!(vfs.rename(top, b"123456789", top, b"1234567890"), Err(VfsError::NameTooLong));
    vfs.rename(top, b"123456789", top, b"12345678x").unwrap();
}

#[test]
fn number_of_symlink_hops_is_limited() {
    let (mut vfs, _, top) = fresh();
    touch(&mut vfs, top, "l0").unwrap();
    for n in 1..=41 {
        let target = format!("l{}", n - 1);
        vfs.symlink(target.as_bytes(), top, format!("l{n}").as_bytes()).unwrap();
    }
    assert!(vfs.lookup(top, b"l39", Follow::Yes).is_ok());
    assert!(vfs.lookup(top, b"l40", Follow::Yes).is_ok());
    assert_eq!(vfs.lookup(top, b"l41", Follow::Yes), Err(VfsError::TooManySymlinks));
    assert!(vfs.lookup(top, b"l41", Follow::No).is_ok());
}

#[test]
fn symlink_loops_and_bombs_are_errors() {
    let (mut vfs, _, top) = fresh();
    vfs.symlink(b"loop", top, b"loop").unwrap();
    vfs.symlink(b"b", top, b"a").unwrap();
    vfs.symlink(b"a/x", top, b"b").unwrap();
    for path in [&b"loop"[..], b"loop/x", b"a", b"b/y"] {
        assert_eq!(vfs.lookup(top, path, Follow::Yes), Err(VfsError::TooManySymlinks));
    }
    // Each link doubles the one before it: without a limit on followed links, there would be 2^40 components.
    vfs.create_dir(top, b"bomb0").unwrap();
    for n in 1..=40 {
        let target = format!("bomb{m}/../bomb{m}", m = n - 1);
        vfs.symlink(target.as_bytes(), top, format!("bomb{n}").as_bytes()).unwrap();
    }
    vfs.take_work();
    assert_eq!(vfs.lookup(top, b"bomb40", Follow::Yes), Err(VfsError::TooManySymlinks));
    assert!(vfs.take_work() < 200);
}

#[test]
fn final_symlink_is_followed_only_if_requested() {
    let (mut vfs, _, top) = fresh();
    let dir = vfs.create_dir(top, b"d").unwrap();
    vfs.symlink(b"d", top, b"l").unwrap();
    vfs.symlink(b"new", top, b"dangling").unwrap();
    let link = vfs.lookup(top, b"l", Follow::No).unwrap();
    assert_eq!(vfs.stat(link).unwrap().kind, FileKind::Symlink);
    assert_eq!(vfs.lookup(top, b"l", Follow::Yes), Ok(dir));
    assert_eq!(vfs.lookup(top, b"l/", Follow::No), Ok(dir));

    let refuse = OpenOptions { follow: Follow::No, ..OpenOptions::default() };
    assert_eq!(vfs.open(top, b"l", refuse), Err(VfsError::TooManySymlinks));
    let directory = OpenOptions { directory: true, ..refuse };
    assert_eq!(vfs.open(top, b"l", directory), Err(VfsError::NotADirectory));

    let exclusive = OpenOptions { exclusive: true, ..CREATE };
    assert_eq!(vfs.open(top, b"dangling", exclusive), Err(VfsError::AlreadyExists));
    assert_eq!(vfs.lookup(top, b"dangling", Follow::Yes), Err(VfsError::NotFound));
    // Creating a file through a dangling link creates the link's target, as POSIX requires.
    assert!(vfs.open(top, b"dangling", CREATE).unwrap().created);
    assert!(vfs.lookup(top, b"new", Follow::No).is_ok());
}

#[test]
fn open_flags_match_existing_entries() {
    let (mut vfs, root, top) = fresh();
    vfs.create_dir(top, b"d").unwrap();
    touch(&mut vfs, top, "f").unwrap();
    let read = OpenOptions::default();
    let directory = OpenOptions { directory: true, ..read };
    let truncate = OpenOptions { truncate: true, ..read };
    let write = OpenOptions { write: true, ..read };
    for (path, options, expected) in [
        (&b"f"[..], directory, VfsError::NotADirectory),
        (b"d", truncate, VfsError::IsADirectory),
        (b"d", write, VfsError::IsADirectory),
        (b"d", CREATE, VfsError::IsADirectory),
        (b".", CREATE, VfsError::IsADirectory),
        (b"new/", CREATE, VfsError::IsADirectory),
        (b"f/", CREATE, VfsError::NotADirectory),
        (b"no", read, VfsError::NotFound),
        (b"no/f", CREATE, VfsError::NotFound),
        (b"x", OpenOptions { directory: true, ..CREATE }, VfsError::Invalid),
    ] {
        assert_eq!(vfs.open(top, path, options), Err(expected));
    }
    assert_eq!(vfs.open(top, b"d/", directory).unwrap().kind, FileKind::Directory);
    vfs.write_file(root, "f", b"data").unwrap();
    let opened = vfs.open(top, b"f", truncate).unwrap();
    assert_eq!(vfs.stat(opened.inode).unwrap().size_bytes, 0);
}

#[test]
fn a_read_only_root_refuses_every_change() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/f", b"data").unwrap();
    let file = vfs.lookup(top, b"d/f", Follow::Yes).unwrap();
    vfs.set_access(root, Access::ReadOnly);
    let refused = Err(VfsError::ReadOnly);
    let write = OpenOptions { write: true, ..OpenOptions::default() };
    assert_eq!(vfs.open(top, b"d/f", write), Err(VfsError::ReadOnly));
    assert_eq!(vfs.open(top, b"new", CREATE), Err(VfsError::ReadOnly));
    assert_eq!(vfs.create_dir(top, b"new").map(drop), refused);
    assert_eq!(vfs.remove_dir(top, b"d"), refused);
    assert_eq!(vfs.unlink(top, b"d/f"), refused);
    assert_eq!(vfs.rename(top, b"d/f", top, b"g"), refused);
    assert_eq!(vfs.link(top, b"d/f", Follow::No, top, b"g"), refused);
    assert_eq!(vfs.symlink(b"x", top, b"g"), refused);
    assert_eq!(vfs.write_at(file, 0, b"x").map(drop), refused);
    assert_eq!(vfs.append(file, b"x").map(drop), refused);
    assert_eq!(vfs.set_len(file, 0), refused);
    assert_eq!(vfs.allocate(file, 0, 9), refused);
    assert_eq!(vfs.set_times(file, Some(1), None), refused);
    assert!(vfs.write_file(root, "d/f", b"x").is_err());
    assert!(vfs.remove(root, "d").is_err());
    assert_eq!(vfs.read_file(root, "/d/f", 9).unwrap(), b"data");
    assert!(vfs.changes(root).deleted.is_empty());
}
