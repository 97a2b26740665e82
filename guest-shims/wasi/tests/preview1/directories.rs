use glovebox_wasi::Errno;

use crate::support::{APP, CREAT, DATA, Guest, OUT, READ, call};

#[test]
fn every_entry_is_listed_once_whatever_the_buffer() {
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
fn the_last_entry_is_cut_where_the_buffer_ends() {
    let mut guest = Guest::new();
    for buf_len in 0..60 {
        call!(guest, fd_readdir(APP, DATA, buf_len, 0, OUT)).unwrap();
        assert_eq!(guest.u32_at(OUT), buf_len.min(24 + 1 + 24 + 2));
        assert_eq!(guest.get(DATA + buf_len, 1), [0], "nothing past the buffer");
    }
}

#[test]
fn entries_removed_while_listing_do_no_harm() {
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
fn only_directories_are_listed_and_only_into_memory() {
    let mut guest = Guest::new();
    let file = guest.open("file", CREAT).unwrap();
    assert_eq!(call!(guest, fd_readdir(file, DATA, 100, 0, OUT)), Err(Errno::NotDir));
    assert_eq!(call!(guest, fd_readdir(99, DATA, 100, 0, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_readdir(APP, DATA, u32::MAX, 0, OUT)), Err(Errno::Fault));
    assert_eq!(call!(guest, fd_readdir(APP, DATA, 100, 0, u32::MAX)), Err(Errno::Fault));
    call!(guest, fd_readdir(APP, DATA, 100, u64::MAX, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 0, "after the end there is nothing");
}

#[test]
fn a_directory_that_was_removed_is_empty() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    let dir = guest.open_at(APP, "dir", 0, READ, 0).unwrap();
    let len = guest.path("dir");
    call!(guest, path_remove_directory(APP, crate::support::PATH, len)).unwrap();
    call!(guest, fd_readdir(dir, DATA, 100, 0, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 0);
    assert!(guest.open_at(dir, "file", CREAT, READ, 0).is_err());
}
