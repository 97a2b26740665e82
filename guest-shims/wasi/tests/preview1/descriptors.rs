use glovebox_vfs::VfsLimits;
use glovebox_wasi::Errno;

use crate::support::{ALL_RIGHTS, APP, CREAT, DATA, DIRECTORY, FILE_RIGHTS, Guest, OUT, PATH, READ, STAT, TRUNC, call};

#[test]
fn preopens_begin_at_three_and_end_with_ebadf() {
    let mut guest = Guest::new();
    call!(guest, fd_prestat_get(APP, OUT)).unwrap();
    assert_eq!((guest.u32_at(OUT), guest.u32_at(OUT + 4)), (0, 4));
    call!(guest, fd_prestat_dir_name(APP, DATA, 4)).unwrap();
    assert_eq!(guest.get(DATA, 5), b"/app\0");
    assert_eq!(call!(guest, fd_prestat_dir_name(APP, DATA, 3)), Err(Errno::NameTooLong));
    for fd in [0, 4, u32::MAX] {
        assert_eq!(call!(guest, fd_prestat_get(fd, OUT)), Err(Errno::Badf));
        assert_eq!(call!(guest, fd_prestat_dir_name(fd, DATA, 10)), Err(Errno::Badf));
    }
}

#[test]
fn fdstat_tells_type_flags_and_rights() {
    let mut guest = Guest::new();
    call!(guest, fd_fdstat_get(APP, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 1), [3]);
    let inheriting = guest.u64_at(STAT + 16);
    assert_eq!(inheriting, ALL_RIGHTS);
    let fd = guest.open_at(APP, "file", CREAT, READ, 0b101).unwrap();
    call!(guest, fd_fdstat_get(fd, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 4), [4, 0, 0b101, 0]);
    assert_eq!((guest.u64_at(STAT + 8), guest.u64_at(STAT + 16)), (READ & FILE_RIGHTS, 0), "nothing with paths");
    assert_eq!(call!(guest, fd_fdstat_get(99, STAT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_fdstat_get(fd, u32::MAX - 22)), Err(Errno::Fault));
}

#[test]
fn flags_can_be_set_and_unknown_ones_are_invalid() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    guest.write(fd, b"abc").unwrap();
    call!(guest, fd_seek(fd, 0, 0, OUT)).unwrap();
    call!(guest, fd_fdstat_set_flags(fd, 1)).unwrap();
    guest.write(fd, b"def").unwrap();
    assert_eq!(guest.content("file"), b"abcdef");
    for flags in [0x20, 0x1_0001, u32::MAX] {
        assert_eq!(call!(guest, fd_fdstat_set_flags(fd, flags)), Err(Errno::Inval));
    }
    assert_eq!(call!(guest, fd_fdstat_set_flags(77, 0)), Err(Errno::Badf));
}

#[test]
fn the_rights_that_are_reported_can_be_asked_for_again() {
    let mut guest = Guest::with(VfsLimits::default(), |config| config.root_preopen = true);
    guest.make_dir("dir").unwrap();
    guest.file("file", b"abc");
    let open = |guest: &mut Guest, at: u32, path: &str, base: u64, inheriting: u64| {
        let len = guest.path(path);
        call!(*guest, path_open(at, 0, PATH, len, 0, base, inheriting, 0, OUT)).map(|()| guest.u32_at(OUT))
    };
    let rights = |guest: &mut Guest, fd: u32| {
        call!(*guest, fd_fdstat_get(fd, STAT)).unwrap();
        (guest.u64_at(STAT + 8), guest.u64_at(STAT + 16))
    };
    let (root, dir, file) = (4, guest.open_to_read("dir").unwrap(), guest.open("file", 0).unwrap());
    for (fd, at, path) in [(APP, APP, "."), (root, root, "."), (dir, APP, "dir"), (dir, dir, "."), (file, APP, "file")]
    {
        let (base, inheriting) = rights(&mut guest, fd);
        let again = open(&mut guest, at, path, base, inheriting).unwrap();
        assert_eq!(rights(&mut guest, again), (base, inheriting), "{path}");
    }
    // A directory never reports rights for operations that it does not support, even if they were requested.
    for (right, answer) in [(1 << 1, Ok(0)), (1 << 2, Ok(0)), (1 << 5, Ok(0)), (1 << 6, Err(Errno::IsDir))] {
        let opened = open(&mut guest, APP, "dir", right, 0);
        assert_eq!(opened.map(|fd| rights(&mut guest, fd).0), answer, "{right:#x}");
    }
    assert_eq!(guest.read(APP, 1), Err(Errno::IsDir));
}

#[test]
fn rights_can_be_given_up_but_not_gained() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    call!(guest, fd_fdstat_set_rights(fd, READ & FILE_RIGHTS, 0)).unwrap();
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_fdstat_set_rights(fd, FILE_RIGHTS, 0)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_fdstat_set_rights(fd, 0, 1)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_fdstat_set_rights(50, 0, 0)), Err(Errno::Badf));
}

#[test]
fn a_directory_opened_with_fewer_rights_passes_on_no_more() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    let len = guest.path("dir");
    call!(guest, path_open(APP, 0, PATH, len, DIRECTORY, READ, READ, 0, OUT)).unwrap();
    let dir = guest.u32_at(OUT);
    assert_eq!(guest.open_at(dir, "file", CREAT, ALL_RIGHTS, 0), Err(Errno::NotCapable));
    assert_eq!(guest.open_at(dir, "file", CREAT, READ, 0), Ok(dir + 1));
    // Unknown bits are ignored in a request for all rights, as some libraries make.
    assert!(guest.open_at(APP, "dir/file", 0, u64::MAX, 0).is_ok());
}

#[test]
fn a_missing_right_is_refused_by_each_call_that_needs_it() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let fd = guest.open("file", 0).unwrap();
    let dir = guest.open_at(APP, ".", DIRECTORY, READ, 0).unwrap();
    call!(guest, fd_fdstat_set_rights(fd, 0, 0)).unwrap();
    call!(guest, fd_fdstat_set_rights(dir, 0, 0)).unwrap();
    assert_eq!(guest.read(fd, 1), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_seek(fd, 0, 0, OUT)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_tell(fd, OUT)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_filestat_get(fd, STAT)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_filestat_set_times(fd, 0, 0, 0)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_filestat_set_size(fd, 0)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_allocate(fd, 0, 1)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_fdstat_set_flags(fd, 0)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_readdir(dir, DATA, 100, 0, OUT)), Err(Errno::NotCapable));
    assert_eq!(guest.open_at(dir, "file", 0, 0, 0), Err(Errno::NotCapable));
    assert_eq!(guest.stat(dir, "file"), Err(Errno::NotCapable));
    assert!(guest.wasi.take_events().is_empty(), "a missing right is no escape");
}

#[test]
fn a_closed_descriptor_is_gone_and_its_number_used_again() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    call!(guest, fd_close(fd)).unwrap();
    assert_eq!(call!(guest, fd_close(fd)), Err(Errno::Badf));
    assert_eq!(guest.read(fd, 1), Err(Errno::Badf));
    assert_eq!(guest.open("file", 0), Ok(fd));
}

#[test]
fn a_guest_cannot_close_or_cripple_a_preopen() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    assert_eq!(call!(guest, fd_close(APP)), Err(Errno::NotSup));
    assert_eq!(call!(guest, fd_renumber(APP, fd)), Err(Errno::NotSup));
    assert_eq!(call!(guest, fd_renumber(fd, APP)), Err(Errno::NotSup));
    call!(guest, fd_fdstat_set_rights(APP, 0, 0)).unwrap();
    assert_eq!(guest.open("file", 0), Ok(fd + 1));
}

#[test]
fn renumbering_moves_and_closes_what_was_there() {
    let mut guest = Guest::new();
    let from = guest.open("from", CREAT).unwrap();
    let to = guest.open("to", CREAT).unwrap();
    guest.write(from, b"abc").unwrap();
    call!(guest, fd_renumber(from, to)).unwrap();
    assert_eq!(call!(guest, fd_tell(from, OUT)), Err(Errno::Badf));
    call!(guest, fd_tell(to, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 3, "the position comes along");
    guest.write(to, b"def").unwrap();
    assert_eq!(guest.content("from"), b"abcdef");
    assert_eq!(guest.content("to"), b"");
    assert_eq!(call!(guest, fd_renumber(to, to)), Ok(()));
    assert_eq!(call!(guest, fd_renumber(to, from)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_renumber(from, to)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_renumber(to, u32::MAX)), Err(Errno::Badf));
    assert_eq!(guest.read(to, 1).unwrap(), b"");
}

#[test]
fn seeking_counts_from_start_position_and_end() {
    let mut guest = Guest::new();
    guest.file("file", b"0123456789");
    let fd = guest.open("file", 0).unwrap();
    for (offset, whence, position) in [(4, 0, 4), (2, 1, 6), (-3, 2, 7), (5, 2, 15), (-15, 1, 0)] {
        call!(guest, fd_seek(fd, offset, whence, OUT)).unwrap();
        assert_eq!(guest.u64_at(OUT), position);
        call!(guest, fd_tell(fd, OUT)).unwrap();
        assert_eq!(guest.u64_at(OUT), position);
    }
    for (offset, whence) in [(-1, 0), (-1, 1), (-11, 2), (i64::MIN, 2), (i64::MAX, 2), (0, 3), (0, u32::MAX)] {
        assert_eq!(call!(guest, fd_seek(fd, offset, whence, OUT)), Err(Errno::Inval), "{offset} {whence}");
    }
    assert_eq!(call!(guest, fd_seek(fd, 5, 0, u32::MAX)), Err(Errno::Fault));
    call!(guest, fd_tell(fd, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 0, "a refused seek moves nothing");
    assert_eq!(call!(guest, fd_seek(APP, 0, 0, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_tell(40, OUT)), Err(Errno::Badf));
    call!(guest, fd_seek(fd, i64::MAX, 0, OUT)).unwrap();
    assert_eq!(guest.read(fd, 1).unwrap(), b"");
}

#[test]
fn synchronizing_succeeds_on_whatever_is_open() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    for fd in [1, APP, fd] {
        assert_eq!(call!(guest, fd_sync(fd)), Ok(()));
        assert_eq!(call!(guest, fd_datasync(fd)), Ok(()));
    }
    assert_eq!(call!(guest, fd_sync(fd + 1)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_datasync(fd + 1)), Err(Errno::Badf));
}

#[test]
fn advice_is_taken_and_nonsense_is_not() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    for advice in 0..6 {
        assert_eq!(call!(guest, fd_advise(fd, u64::MAX, u64::MAX, advice)), Ok(()));
    }
    assert_eq!(call!(guest, fd_advise(fd, 0, 0, 6)), Err(Errno::Inval));
    assert_eq!(call!(guest, fd_advise(APP, 0, 0, 0)), Err(Errno::Badf));
}

#[test]
fn allocating_extends_and_never_shortens() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    guest.write(fd, b"abc").unwrap();
    call!(guest, fd_allocate(fd, 4, 6)).unwrap();
    assert_eq!(guest.content("file"), b"abc\0\0\0\0\0\0\0");
    call!(guest, fd_allocate(fd, 0, 1)).unwrap();
    assert_eq!(guest.content("file").len(), 10);
    assert_eq!(call!(guest, fd_allocate(fd, 0, 0)), Err(Errno::Inval));
    assert!(matches!(call!(guest, fd_allocate(fd, u64::MAX, 2)), Err(Errno::Fbig | Errno::Inval | Errno::NoSpc)));
    assert!(matches!(call!(guest, fd_allocate(fd, 0, 1 << 40)), Err(Errno::NoSpc | Errno::Fbig)));
    let reader = guest.open_to_read("file").unwrap();
    assert_eq!(call!(guest, fd_allocate(reader, 0, 1)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_allocate(APP, 0, 1)), Err(Errno::Badf));
}

#[test]
fn attributes_of_a_descriptor() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let fd = guest.open("file", 0).unwrap();
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!(guest.get(STAT + 16, 1), [4]);
    assert_eq!(guest.u64_at(STAT + 24), 1);
    assert_eq!(guest.u64_at(STAT + 32), 3);
    assert_ne!(guest.u64_at(STAT), 0, "a device number");
    call!(guest, fd_filestat_get(APP, STAT)).unwrap();
    assert_eq!(guest.get(STAT + 16, 1), [3]);
    assert_eq!(call!(guest, fd_filestat_get(60, STAT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_filestat_get(fd, u32::MAX - 62)), Err(Errno::Fault));
}

#[test]
fn sizes_can_be_set_both_ways() {
    let mut guest = Guest::new();
    guest.file("file", b"abcdef");
    let fd = guest.open("file", 0).unwrap();
    call!(guest, fd_filestat_set_size(fd, 3)).unwrap();
    assert_eq!(guest.content("file"), b"abc");
    call!(guest, fd_filestat_set_size(fd, 5)).unwrap();
    assert_eq!(guest.content("file"), b"abc\0\0");
    assert!(matches!(call!(guest, fd_filestat_set_size(fd, 1 << 50)), Err(Errno::NoSpc | Errno::Fbig)));
    let reader = guest.open_to_read("file").unwrap();
    assert_eq!(call!(guest, fd_filestat_set_size(reader, 0)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_filestat_set_size(APP, 0)), Err(Errno::Inval));
    assert_eq!(guest.content("file"), b"abc\0\0");
}

#[test]
fn times_can_be_given_taken_now_or_left_alone() {
    let mut guest = Guest::new();
    guest.wasi.set_clock(glovebox_wasi::Clock::Host);
    let fd = guest.open("file", CREAT | TRUNC).unwrap();
    call!(guest, fd_filestat_set_times(fd, 11, 22, 1 | 4)).unwrap();
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!((guest.u64_at(STAT + 40), guest.u64_at(STAT + 48)), (11, 22));
    call!(guest, fd_filestat_set_times(fd, 0, 0, 8)).unwrap();
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!((guest.u64_at(STAT + 40), guest.u64_at(STAT + 48)), (11, guest.host.realtime_ns));
    for flags in [1 | 2, 4 | 8, 16, u32::MAX] {
        assert_eq!(call!(guest, fd_filestat_set_times(fd, 0, 0, flags)), Err(Errno::Inval));
    }
    let len = guest.path("file");
    call!(guest, path_filestat_set_times(APP, 0, PATH, len, 5, 6, 1 | 4)).unwrap();
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!((guest.u64_at(STAT + 40), guest.u64_at(STAT + 48)), (5, 6));
    assert_eq!(call!(guest, path_filestat_set_times(APP, 2, PATH, len, 5, 6, 0)), Err(Errno::Inval));
    let len = guest.path("none");
    let missing = call!(guest, path_filestat_set_times(APP, 0, PATH, len, 5, 6, 0));
    assert_eq!(missing, Err(Errno::NoEnt));
}
