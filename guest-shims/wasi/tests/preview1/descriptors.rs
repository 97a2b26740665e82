use glovebox_vfs::VfsLimits;
use glovebox_wasi::Errno;

use crate::support::{
    ALL_RIGHTS, APP, APPEND, CREAT, DATA, DIRECTORY, EXCL, FILE_RIGHTS, Guest, OTHER_PATH, OUT, PATH, READ, STAT,
    TRUNC, call,
};

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
fn fdstat_reports_type_flags_and_rights() {
    let mut guest = Guest::new();
    call!(guest, fd_fdstat_get(APP, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 1), [3]);
    let inheriting = guest.u64_at(STAT + 16);
    assert_eq!(inheriting, ALL_RIGHTS);
    let fd = guest.open_at(APP, "file", CREAT, READ, 0b101).unwrap();
    call!(guest, fd_fdstat_get(fd, STAT)).unwrap();
    assert_eq!(guest.get(STAT, 4), [4, 0, 0b101, 0]);
    assert_eq!(
        (guest.u64_at(STAT + 8), guest.u64_at(STAT + 16)),
        (READ & FILE_RIGHTS, 0),
        "a file has no rights for path operations"
    );
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
fn reported_rights_can_be_requested() {
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
    // A directory never has rights for operations that it does not support, even if they were requested.
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
fn directory_rights_bound_the_rights_of_its_files() {
    let mut guest = Guest::new();
    guest.make_dir("dir").unwrap();
    let len = guest.path("dir");
    call!(guest, path_open(APP, 0, PATH, len, DIRECTORY, READ, READ, 0, OUT)).unwrap();
    let dir = guest.u32_at(OUT);
    assert_eq!(guest.open_at(dir, "file", CREAT, ALL_RIGHTS, 0), Err(Errno::NotCapable));
    assert_eq!(guest.open_at(dir, "file", CREAT, READ, 0), Ok(dir + 1));
    // Unknown bits are ignored in a request for all rights, which some libraries make.
    assert!(guest.open_at(APP, "dir/file", 0, u64::MAX, 0).is_ok());
}

#[test]
fn calls_fail_without_their_rights() {
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
    assert!(guest.wasi.take_events().is_empty(), "a missing right is not recorded as an escape");
}

#[test]
fn closed_descriptor_number_is_reused() {
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
fn renumbering_moves_and_closes_the_target() {
    let mut guest = Guest::new();
    let from = guest.open("from", CREAT).unwrap();
    let to = guest.open("to", CREAT).unwrap();
    guest.write(from, b"abc").unwrap();
    call!(guest, fd_renumber(from, to)).unwrap();
    assert_eq!(call!(guest, fd_tell(from, OUT)), Err(Errno::Badf));
    call!(guest, fd_tell(to, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 3, "renumbering keeps the position");
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
    assert_eq!(guest.u64_at(OUT), 0, "a refused seek does not change the position");
    assert_eq!(call!(guest, fd_seek(APP, 0, 0, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_tell(40, OUT)), Err(Errno::Badf));
    call!(guest, fd_seek(fd, i64::MAX, 0, OUT)).unwrap();
    assert_eq!(guest.read(fd, 1).unwrap(), b"");
}

#[test]
fn sync_succeeds_on_every_open_descriptor() {
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
fn fd_advise_accepts_only_valid_advice() {
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
fn filestat_reports_type_links_and_size() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let fd = guest.open("file", 0).unwrap();
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!(guest.get(STAT + 16, 1), [4]);
    assert_eq!(guest.u64_at(STAT + 24), 1);
    assert_eq!(guest.u64_at(STAT + 32), 3);
    assert_ne!(guest.u64_at(STAT), 0, "the device number is not 0");
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
fn times_can_be_set_explicitly_or_to_now() {
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

const ROOT: u32 = 4;

fn guest() -> Guest {
    Guest::with(VfsLimits { bytes: 1 << 20, inodes: 50, ..VfsLimits::default() }, |config| config.root_preopen = true)
}

fn again(guest: &mut Guest, fd: u32, rights: u64) -> Result<u32, Errno> {
    guest.open_at(ROOT, &format!("dev/fd/{fd}"), 0, rights, 0)
}

#[test]
fn fd_device_reopens_a_file_at_its_position() {
    let mut guest = guest();
    let fd = guest.open("a", CREAT).unwrap();
    guest.write(fd, b"ab").unwrap();
    let copy = again(&mut guest, fd, ALL_RIGHTS).unwrap();
    assert_eq!(guest.write(copy, b"cd"), Ok(2));
    assert_eq!(guest.write(fd, b"x"), Ok(1), "each descriptor has its own position");
    call!(guest, fd_close(fd)).unwrap();
    guest.path("a");
    call!(guest, path_unlink_file(APP, PATH, 1)).unwrap();
    assert_eq!(guest.write(copy, b"e"), Ok(1), "the file exists while one descriptor is open");
    call!(guest, fd_close(copy)).unwrap();
    assert_eq!(guest.wasi.vfs().inodes_used(), guest_inodes());
}

fn guest_inodes() -> u64 {
    guest().wasi.vfs().inodes_used()
}

#[test]
fn reopened_descriptor_gains_no_rights() {
    let mut guest = guest();
    guest.file("a", b"abc");
    let fd = guest.open_to_read("a").unwrap();
    assert_eq!(again(&mut guest, fd, ALL_RIGHTS), Err(Errno::Acces), "the original descriptor cannot write");
    let copy = again(&mut guest, fd, READ).unwrap();
    assert_eq!(guest.read(copy, 10), Ok(b"abc".to_vec()));
    assert_eq!(guest.write(copy, b"x"), Err(Errno::Badf));
}

#[test]
fn fd_device_names_streams_and_directories() {
    let mut guest = guest();
    let out = guest.open_at(ROOT, "dev/stdout", CREAT | TRUNC, ALL_RIGHTS & !READ, 0).unwrap();
    assert_eq!(guest.write(out, b"hello"), Ok(5));
    assert_eq!(guest.wasi.output(glovebox_wasi::Stream::Stdout), b"hello");
    assert_eq!(guest.open_at(ROOT, "dev/stdin", 0, ALL_RIGHTS, 0), Err(Errno::Acces));
    let input = guest.open_at(ROOT, "dev/stdin", 0, READ, 0).unwrap();
    assert_eq!(guest.read(input, 10), Ok(Vec::new()));
    guest.make_dir("d").unwrap();
    let dir = guest.open_at(APP, "d", DIRECTORY, READ, 0).unwrap();
    let copy = guest.open_at(ROOT, &format!("dev/fd/{dir}"), DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.names(copy, 1_000), guest.names(dir, 1_000));
    assert_eq!(guest.stat(ROOT, "dev/fd/0").unwrap().2, 0);
}

#[test]
fn fd_device_rejects_closed_and_invalid_numbers() {
    let mut guest = guest();
    guest.file("a", b"abc");
    for name in
        ["dev/fd/99", "dev/fd/3", "dev/fd/4", "dev/fd/01", "dev/fd/+1", "dev/fd/4294967296", "dev/fd/-1", "dev/fd/x"]
    {
        let opened = guest.open_at(ROOT, name, 0, READ, 0);
        assert!(matches!(opened, Err(Errno::NoEnt | Errno::Acces)), "{name}: {opened:?}");
        assert_eq!(guest.stat(ROOT, name), Err(Errno::NoEnt), "{name}");
    }
    assert_eq!(guest.open_at(ROOT, "dev/fd/0/x", 0, READ, 0), Err(Errno::NotDir));
    assert_eq!(guest.open_at(ROOT, "dev/fd/0", DIRECTORY, READ, 0), Err(Errno::NotDir));
    assert_eq!(guest.open_at(ROOT, "dev/fd/0", CREAT | EXCL, READ, 0), Err(Errno::Exist));
    let fd = guest.open("a", 0).unwrap();
    let name = format!("dev/fd/{fd}");
    assert_eq!(guest.open_at(ROOT, &name, TRUNC, ALL_RIGHTS, APPEND), Err(Errno::Inval));
    let len = guest.path(&name);
    assert_eq!(call!(guest, path_unlink_file(ROOT, PATH, len)), Err(Errno::Busy));
}

fn renumber_by_path(guest: &mut Guest, from: u32, to: impl std::fmt::Display) -> Result<(), Errno> {
    let (from, to) = (guest.path(&format!("dev/fd/{from}")), guest.other_path(&format!("dev/fd/{to}")));
    call!(*guest, path_rename(ROOT, PATH, from, ROOT, OTHER_PATH, to))
}

#[test]
fn renaming_in_the_fd_directory_renumbers_descriptors() {
    let mut guest = guest();
    let fd = guest.open("a", CREAT).unwrap();
    assert_eq!(renumber_by_path(&mut guest, fd, 1), Ok(()));
    assert_eq!(guest.write(1, b"ab"), Ok(2), "standard output now refers to the file");
    assert_eq!(guest.wasi.output(glovebox_wasi::Stream::Stdout), b"");
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Badf));
    assert_eq!(renumber_by_path(&mut guest, 1, 200), Ok(()), "to a number that is not open");
    assert_eq!(guest.write(200, b"cd"), Ok(2));
    assert_eq!(guest.open_to_read("a"), Ok(fd), "the lowest number is free again");
    assert_eq!(guest.read(fd, 10), Ok(b"abcd".to_vec()));
    assert_eq!(renumber_by_path(&mut guest, fd, fd), Ok(()));
    assert_eq!(renumber_by_path(&mut guest, fd, 200), Ok(()));
    assert_eq!(guest.write(200, b"x"), Err(Errno::Badf), "replaced by a read-only descriptor");
    assert_eq!(guest.wasi.open_files(), 1);
    call!(guest, fd_close(200)).unwrap();
    guest.path("a");
    call!(guest, path_unlink_file(APP, PATH, 1)).unwrap();
    assert_eq!(guest.wasi.vfs().inodes_used(), guest_inodes(), "no descriptor keeps the file alive");
}

#[test]
fn descriptors_are_renumbered_below_the_limit_only() {
    let mut guest = guest();
    let limit = guest.wasi.limits().open_files;
    let fd = guest.open("a", CREAT).unwrap();
    for (to, expected) in [
        (limit - 1, Ok(())),
        (limit, Err(Errno::Badf)),
        (limit + 1, Err(Errno::Badf)),
        (u32::MAX, Err(Errno::Badf)),
        (APP, Err(Errno::NotSup)),
        (ROOT, Err(Errno::NotSup)),
    ] {
        let from = again(&mut guest, fd, ALL_RIGHTS).unwrap();
        assert_eq!(renumber_by_path(&mut guest, from, to), expected, "{to}");
        _ = call!(guest, fd_close(from));
    }
    assert_eq!(renumber_by_path(&mut guest, APP, 7), Err(Errno::NotSup));
    assert_eq!(renumber_by_path(&mut guest, 99, 7), Err(Errno::Badf));
    assert_eq!(renumber_by_path(&mut guest, fd, "07"), Err(Errno::Acces), "not the name of a descriptor");
    assert_eq!(guest.wasi.open_files(), 2);
}

#[test]
fn reopened_descriptors_count_against_the_limit() {
    let mut guest = guest();
    let mut opened = 0;
    let failed = loop {
        match again(&mut guest, 0, READ) {
            Ok(_) => opened += 1,
            Err(errno) => break errno,
        }
        assert!(opened < 1_000);
    };
    assert_eq!(failed, Errno::Mfile);
}
