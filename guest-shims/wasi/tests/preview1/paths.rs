use glovebox_vfs::Access;
use glovebox_wasi::{Errno, SecurityEvent};

use crate::support::{
    ALL_RIGHTS, APP, CREAT, DATA, DIRECTORY, EXCL, Guest, OTHER_PATH, OUT, PATH, READ, STAT, TRUNC, call,
};

fn rename(guest: &mut Guest, from: &str, to: &str) -> Result<(), Errno> {
    let (from, to) = (guest.path(from), guest.other_path(to));
    call!(*guest, path_rename(APP, PATH, from, APP, OTHER_PATH, to))
}

fn link(guest: &mut Guest, from: &str, to: &str) -> Result<(), Errno> {
    let (from, to) = (guest.path(from), guest.other_path(to));
    call!(*guest, path_link(APP, 0, PATH, from, APP, OTHER_PATH, to))
}

fn symlink(guest: &mut Guest, target: &str, path: &str) -> Result<(), Errno> {
    let (target, path) = (guest.path(target), guest.other_path(path));
    call!(*guest, path_symlink(PATH, target, APP, OTHER_PATH, path))
}

fn unlink(guest: &mut Guest, path: &str) -> Result<(), Errno> {
    let len = guest.path(path);
    call!(*guest, path_unlink_file(APP, PATH, len))
}

fn remove_dir(guest: &mut Guest, path: &str) -> Result<(), Errno> {
    let len = guest.path(path);
    call!(*guest, path_remove_directory(APP, PATH, len))
}

#[test]
fn opening_creates_truncates_and_excludes_as_asked() {
    let mut guest = Guest::new();
    assert_eq!(guest.open("file", 0), Err(Errno::NoEnt));
    assert_eq!(guest.open("file", CREAT | EXCL), Ok(4));
    assert_eq!(guest.open("file", CREAT | EXCL), Err(Errno::Exist));
    assert_eq!(guest.write(4, b"abc"), Ok(3));
    assert_eq!(guest.open("file", CREAT), Ok(5));
    assert_eq!(guest.content("file"), b"abc");
    guest.open("file", TRUNC).unwrap();
    assert_eq!(guest.content("file"), b"");
    assert_eq!(guest.open("file", DIRECTORY), Err(Errno::NotDir));
    assert_eq!(guest.open("file/below", 0), Err(Errno::NotDir));
    assert_eq!(guest.open("none/below", CREAT), Err(Errno::NoEnt));
    assert_eq!(guest.open("", CREAT), Err(Errno::NoEnt));
}

#[test]
fn a_directory_opens_for_reading_only() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    assert_eq!(guest.open("dir", 0), Err(Errno::IsDir));
    let dir = guest.open_to_read("dir").unwrap();
    call!(guest, fd_fdstat_get(dir, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 1), [3]);
    assert_eq!(guest.open_at(APP, "dir", DIRECTORY, READ, 0), Ok(dir + 1));
    guest.open_at(dir, "file", CREAT, READ, 0).unwrap();
    assert_eq!(guest.stat(APP, "dir/file").unwrap().0, 4);
}

#[test]
fn flags_that_do_not_exist_are_invalid() {
    let mut guest = Guest::new();
    let len = guest.path("file");
    for (dirflags, oflags, fdflags) in
        [(2, 0, 0), (u32::MAX, 0, 0), (0, 16, 0), (0, u32::MAX, 0), (0, 0, 32), (0, 0, 1 << 16)]
    {
        let opened = call!(guest, path_open(APP, dirflags, PATH, len, oflags, 0, 0, fdflags, OUT));
        assert_eq!(opened, Err(Errno::Inval), "{dirflags} {oflags} {fdflags}");
    }
    assert_eq!(call!(guest, path_filestat_get(APP, 2, PATH, len, STAT)), Err(Errno::Inval));
    assert_eq!(call!(guest, path_link(APP, 2, PATH, len, APP, PATH, len)), Err(Errno::Inval));
}

#[test]
fn invalid_long_and_outside_paths_are_rejected() {
    let mut guest = Guest::new();
    guest.put(PATH, b"a\xFFb");
    assert_eq!(call!(guest, path_create_directory(APP, PATH, 3)), Err(Errno::Ilseq));
    guest.put(PATH, b"a\0b");
    assert_eq!(call!(guest, path_create_directory(APP, PATH, 3)), Err(Errno::Inval));
    guest.put(PATH, &[b'a'; 4097]);
    for (len, expected) in [
        (255, Ok(())),
        (256, Err(Errno::NameTooLong)),
        (4097, Err(Errno::NameTooLong)),
        (u32::MAX, Err(Errno::NameTooLong)),
    ] {
        assert_eq!(call!(guest, path_create_directory(APP, PATH, len)), expected, "{len}");
    }
    assert_eq!(call!(guest, path_create_directory(APP, u32::MAX - 2, 4)), Err(Errno::Fault));
    let end = u32::try_from(guest.host.memory.len()).unwrap();
    assert_eq!(call!(guest, path_create_directory(APP, end - 3, 4)), Err(Errno::Fault));
}

#[test]
fn path_calls_require_an_open_directory() {
    let mut guest = Guest::new();
    let file = guest.open("file", CREAT).unwrap();
    let len = guest.path("x");
    for (fd, expected) in [(99, Errno::Badf), (file, Errno::NotDir), (1, Errno::NotDir)] {
        let expected = Err(expected);
        assert_eq!(call!(guest, path_create_directory(fd, PATH, len)), expected);
        assert_eq!(call!(guest, path_filestat_get(fd, 0, PATH, len, STAT)), expected);
        assert_eq!(call!(guest, path_filestat_set_times(fd, 0, PATH, len, 0, 0, 0)), expected);
        assert_eq!(call!(guest, path_link(fd, 0, PATH, len, APP, PATH, len)), expected);
        assert_eq!(call!(guest, path_link(APP, 0, PATH, len, fd, PATH, len)), expected);
        assert_eq!(call!(guest, path_open(fd, 0, PATH, len, 0, 0, 0, 0, OUT)), expected);
        assert_eq!(call!(guest, path_readlink(fd, PATH, len, DATA, 10, OUT)), expected);
        assert_eq!(call!(guest, path_remove_directory(fd, PATH, len)), expected);
        assert_eq!(call!(guest, path_rename(fd, PATH, len, APP, PATH, len)), expected);
        assert_eq!(call!(guest, path_rename(APP, PATH, len, fd, PATH, len)), expected);
        assert_eq!(call!(guest, path_symlink(PATH, len, fd, PATH, len)), expected);
        assert_eq!(call!(guest, path_unlink_file(fd, PATH, len)), expected);
    }
}

#[test]
fn directories_are_made_and_removed() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    assert_eq!(guest.make_dir("dir"), Err(Errno::Exist));
    assert_eq!(guest.make_dir("none/dir"), Err(Errno::NoEnt));
    guest.make_dir("dir/inner").unwrap();
    assert_eq!(guest.stat(APP, "dir/inner").unwrap().0, 3);
    assert_eq!(remove_dir(&mut guest, "dir"), Err(Errno::NotEmpty));
    remove_dir(&mut guest, "dir/inner").unwrap();
    remove_dir(&mut guest, "dir").unwrap();
    assert_eq!(guest.stat(APP, "dir"), Err(Errno::NoEnt));
    guest.file("file", b"");
    assert_eq!(remove_dir(&mut guest, "file"), Err(Errno::NotDir));
}

#[test]
fn files_are_removed_and_directories_are_not_files() {
    let mut guest = Guest::new();
    guest.file("file", b"");
    guest.make_dir("dir").unwrap();
    assert_eq!(unlink(&mut guest, "file"), Ok(()));
    assert_eq!(unlink(&mut guest, "file"), Err(Errno::NoEnt));
    assert_eq!(unlink(&mut guest, "dir"), Err(Errno::IsDir));
}

#[test]
fn renaming_moves_and_replaces() {
    let mut guest = Guest::new();
    guest.file("a", b"A");
    guest.file("b", b"B");
    guest.make_dir("dir").unwrap();
    rename(&mut guest, "a", "b").unwrap();
    assert_eq!(guest.content("b"), b"A");
    assert_eq!(guest.stat(APP, "a"), Err(Errno::NoEnt));
    rename(&mut guest, "b", "dir/c").unwrap();
    assert_eq!(guest.content("dir/c"), b"A");
    assert_eq!(rename(&mut guest, "dir", "dir/below"), Err(Errno::Inval));
    assert_eq!(rename(&mut guest, "none", "x"), Err(Errno::NoEnt));
}

#[test]
fn hard_links_share_content() {
    let mut guest = Guest::new();
    guest.file("a", b"A");
    link(&mut guest, "a", "b").unwrap();
    let (a, b) = (guest.stat(APP, "a").unwrap(), guest.stat(APP, "b").unwrap());
    assert_eq!(a, b);
    assert_eq!(guest.u64_at(STAT + 24), 2);
    assert_eq!(link(&mut guest, "a", "b"), Err(Errno::Exist));
    guest.make_dir("dir").unwrap();
    assert_eq!(link(&mut guest, "dir", "hard"), Err(Errno::Perm));
}

#[test]
fn symbolic_links_are_followed_when_asked_and_read() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    symlink(&mut guest, "file", "link").unwrap();
    assert_eq!(guest.content("link"), b"abc");
    assert_eq!(guest.stat(APP, "link").unwrap().0, 4);
    let len = guest.path("link");
    call!(guest, path_filestat_get(APP, 0, PATH, len, STAT)).unwrap();
    assert_eq!(guest.get(STAT + 16, 1), [7]);
    call!(guest, path_readlink(APP, PATH, len, DATA, 100, OUT)).unwrap();
    assert_eq!(guest.get(DATA, guest.u32_at(OUT)), b"file");
    call!(guest, path_readlink(APP, PATH, len, DATA, 2, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 2, "truncated to the buffer");
    assert_eq!(call!(guest, path_open(APP, 0, PATH, len, 0, READ, 0, 0, OUT)), Err(Errno::Loop));
    let len = guest.path("file");
    assert_eq!(call!(guest, path_readlink(APP, PATH, len, DATA, 100, OUT)), Err(Errno::Inval));
    symlink(&mut guest, "loop", "loop").unwrap();
    assert_eq!(guest.stat(APP, "loop"), Err(Errno::Loop));
}

#[test]
fn no_path_leaves_the_workspace_and_each_attempt_is_recorded() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    for path in ["../etc/passwd", "/etc/passwd", "dir/../../etc/passwd", ".."] {
        assert_eq!(guest.open_to_read(path), Err(Errno::Acces), "{path}");
        assert_eq!(guest.stat(APP, path), Err(Errno::NoEnt), "{path}");
        assert_eq!(guest.make_dir(path), Err(Errno::Acces), "{path}");
        assert_eq!(unlink(&mut guest, path), Err(Errno::Acces), "{path}");
        assert_eq!(rename(&mut guest, "dir", path), Err(Errno::Acces), "{path}");
    }
    let events = guest.wasi.take_events();
    let first_path = "/app/../etc/passwd".to_owned();
    assert_eq!(events, [SecurityEvent::PathEscape { count: 20, first_path }]);
    assert!(guest.wasi.take_events().is_empty());
    assert_eq!(guest.stat(APP, "dir/..").unwrap().0, 3, "`..` is allowed within the mount");

    assert_eq!(symlink(&mut guest, "/etc/passwd", "link"), Err(Errno::Acces));
    let long = format!("../{}", "é".repeat(500));
    assert!(guest.stat(APP, &long).is_err());
    let [SecurityEvent::PathEscape { count: 2, first_path }] = &guest.wasi.take_events()[..] else {
        panic!("an event");
    };
    assert!(first_path.len() <= 256);
}

#[test]
fn link_that_points_outside_is_not_followed() {
    let mut guest = Guest::new();
    symlink(&mut guest, "../../etc/passwd", "link").unwrap();
    assert_eq!(guest.open_to_read("link"), Err(Errno::Acces));
    let len = guest.path("link");
    assert_eq!(call!(guest, path_filestat_get(APP, 1, PATH, len, STAT)), Err(Errno::NoEnt));
    call!(guest, path_filestat_get(APP, 0, PATH, len, STAT)).unwrap();
    assert_eq!(guest.get(STAT + 16, 1), [7], "the link itself is inside the mount");
}

#[test]
fn outside_paths_are_missing_and_not_permitted() {
    let mut guest = Guest::new();
    guest.file("file", b"");
    let outside = guest.path("../x");
    let file = guest.other_path("file");
    for looked in [
        call!(guest, path_filestat_get(APP, 0, PATH, outside, STAT)),
        call!(guest, path_readlink(APP, PATH, outside, DATA, 100, OUT)),
        guest.open_at(APP, "../x", DIRECTORY, READ, 0).map(|_| ()),
    ] {
        assert_eq!(looked, Err(Errno::NoEnt));
    }
    for used in [
        guest.open_at(APP, "../x", DIRECTORY, ALL_RIGHTS, 0).map(|_| ()),
        guest.open_at(APP, "../x", CREAT, READ, 0).map(|_| ()),
        guest.open_at(APP, "../x", TRUNC, READ, 0).map(|_| ()),
        guest.open_at(APP, "../x", 0, READ, 0).map(|_| ()),
        call!(guest, path_filestat_set_times(APP, 0, PATH, outside, 0, 0, 0)),
        call!(guest, path_remove_directory(APP, PATH, outside)),
        call!(guest, path_link(APP, 0, PATH, outside, APP, OTHER_PATH, file)),
        call!(guest, path_link(APP, 0, OTHER_PATH, file, APP, PATH, outside)),
        call!(guest, path_rename(APP, PATH, outside, APP, OTHER_PATH, file)),
    ] {
        assert_eq!(used, Err(Errno::Acces));
    }
    let events = guest.wasi.take_events();
    assert_eq!(events, [SecurityEvent::PathEscape { count: 12, first_path: "/app/../x".to_owned() }]);
}

#[test]
fn a_directory_that_the_guest_opened_is_a_capability() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    let dir = guest.open_at(APP, "dir", DIRECTORY, READ, 0).unwrap();
    for path in ["..", "../../etc/passwd", "/app/dir"] {
        assert_eq!(guest.open_at(dir, path, 0, READ, 0), Err(Errno::NotCapable), "{path}");
        assert_eq!(guest.stat(dir, path), Err(Errno::NoEnt), "{path}");
    }
}

#[test]
fn read_only_mount_rejects_changes() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    guest.make_dir("dir").unwrap();
    let app = guest.app;
    guest.wasi.vfs_mut().set_access(app, Access::ReadOnly);
    assert_eq!(guest.content("file"), b"abc");
    assert_eq!(guest.open("file", 0), Err(Errno::Rofs));
    assert_eq!(guest.open_at(APP, "new", CREAT, READ, 0), Err(Errno::Rofs));
    assert_eq!(guest.open_at(APP, "file", TRUNC, READ, 0), Err(Errno::Rofs));
    assert_eq!(guest.make_dir("other"), Err(Errno::Rofs));
    assert_eq!(unlink(&mut guest, "file"), Err(Errno::Rofs));
    assert_eq!(remove_dir(&mut guest, "dir"), Err(Errno::Rofs));
    assert_eq!(rename(&mut guest, "file", "x"), Err(Errno::Rofs));
    assert_eq!(link(&mut guest, "file", "x"), Err(Errno::Rofs));
    assert_eq!(symlink(&mut guest, "file", "x"), Err(Errno::Rofs));
    let fd = guest.open_at(APP, "file", 0, ALL_RIGHTS & !(1 << 6), 0).unwrap();
    assert_eq!(call!(guest, fd_filestat_set_size(fd, 0)), Err(Errno::Rofs));
    assert_eq!(call!(guest, fd_filestat_set_times(fd, 0, 0, 1)), Err(Errno::Rofs));
    assert_eq!(guest.content("file"), b"abc");
}

#[test]
fn readdir_lists_each_entry_once_for_any_buffer() {
    let mut guest = Guest::new();
    let mut expected: Vec<String> = (0..300).map(|i| format!("file-{i:03}")).collect();
    for name in &expected {
        let fd = guest.open(name, CREAT).unwrap();
        call!(guest, fd_close(fd)).unwrap();
    }
    expected.extend([".".to_owned(), "..".to_owned()]);
    expected.sort();
    for buf_len in [33, 100, 4096, 60_000] {
        let mut names = guest.names(APP, buf_len);
        names.sort();
        assert_eq!(names, expected, "buffer of {buf_len}");
    }
}

#[test]
fn entries_carry_inode_type_and_cookie() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    call!(guest, fd_readdir(APP, DATA, 1000, 0, OUT)).unwrap();
    let used = guest.u32_at(OUT);
    assert_eq!(used, 3 * 24 + 1 + 2 + 3);
    let (mut at, mut found) = (0, false);
    while at < used {
        let len = guest.u32_at(DATA + at + 16);
        if guest.get(DATA + at + 24, len) == b"dir" {
            assert_eq!(guest.get(DATA + at + 20, 1), [3]);
            let inode = guest.u64_at(DATA + at + 8);
            assert_eq!(inode, guest.stat(APP, "dir").unwrap().1);
            found = true;
        }
        at += 24 + len;
    }
    assert!(found);
}

#[test]
fn readdir_truncates_the_last_entry() {
    let mut guest = Guest::new();
    for buf_len in 0..60 {
        call!(guest, fd_readdir(APP, DATA, buf_len, 0, OUT)).unwrap();
        assert_eq!(guest.u32_at(OUT), buf_len.min(24 + 1 + 24 + 2));
        assert_eq!(guest.get(DATA + buf_len, 1), [0], "no byte is written past the buffer");
    }
}

#[test]
fn readdir_tolerates_removed_entries() {
    let mut guest = Guest::new();
    for i in 0..100 {
        guest.file(&format!("f{i}"), b"");
    }
    let mut cookie = 0;
    let mut seen = 0;
    loop {
        call!(guest, fd_readdir(APP, DATA, 24 + 4, cookie, OUT)).unwrap();
        if guest.u32_at(OUT) < 24 {
            break;
        }
        cookie = guest.u64_at(DATA);
        let len = guest.u32_at(DATA + 16);
        let name = guest.get(DATA + 24, len);
        if name[0] == b'f' {
            seen += 1;
            assert_eq!(call!(guest, path_unlink_file(APP, DATA + 24, len)), Ok(()));
        }
    }
    assert_eq!(seen, 100);
    assert_eq!(guest.names(APP, 4096), [".", ".."]);
}

#[test]
fn readdir_requires_a_directory_and_valid_memory() {
    let mut guest = Guest::new();
    let file = guest.open("file", CREAT).unwrap();
    assert_eq!(call!(guest, fd_readdir(file, DATA, 100, 0, OUT)), Err(Errno::NotDir));
    assert_eq!(call!(guest, fd_readdir(99, DATA, 100, 0, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_readdir(APP, DATA, u32::MAX, 0, OUT)), Err(Errno::Fault));
    assert_eq!(call!(guest, fd_readdir(APP, DATA, 100, 0, u32::MAX)), Err(Errno::Fault));
    call!(guest, fd_readdir(APP, DATA, 100, u64::MAX, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 0, "a cookie after the end returns no entries");
}

#[test]
fn a_directory_that_was_removed_is_empty() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    let dir = guest.open_at(APP, "dir", 0, READ, 0).unwrap();
    let len = guest.path("dir");
    call!(guest, path_remove_directory(APP, PATH, len)).unwrap();
    call!(guest, fd_readdir(dir, DATA, 100, 0, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 0);
    assert!(guest.open_at(dir, "file", CREAT, READ, 0).is_err());
}
