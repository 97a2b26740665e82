//! Tests of names of open descriptors below `/dev`, and of the devices for space and for scrypt.

use glovebox_vfs::VfsLimits;
use glovebox_wasi::{Errno, MAX_SCRYPT_BLOCKS, SCRYPT_DEVICE, SPACE_DEVICE, prices};

use crate::support::{
    ALL_RIGHTS, APP, APPEND, CREAT, DATA, DIRECTORY, EXCL, Guest, IOVS, OUT, PATH, READ, TRUNC, call,
};

const ROOT: u32 = 4;

fn guest() -> Guest {
    Guest::with(VfsLimits { bytes: 1 << 20, inodes: 50, ..VfsLimits::default() }, |config| config.root_preopen = true)
}

fn again(guest: &mut Guest, fd: u32, rights: u64) -> Result<u32, Errno> {
    guest.open_at(ROOT, &format!("dev/fd/{fd}"), 0, rights, 0)
}

#[test]
fn a_file_is_opened_once_more_where_its_position_is() {
    let mut guest = guest();
    let fd = guest.open("a", CREAT).unwrap();
    guest.write(fd, b"ab").unwrap();
    let copy = again(&mut guest, fd, ALL_RIGHTS).unwrap();
    assert_eq!(guest.write(copy, b"cd"), Ok(2));
    assert_eq!(guest.write(fd, b"x"), Ok(1), "each has a position of its own");
    call!(guest, fd_close(fd)).unwrap();
    guest.path("a");
    call!(guest, path_unlink_file(APP, PATH, 1)).unwrap();
    assert_eq!(guest.write(copy, b"e"), Ok(1), "the file lives as long as one of them");
    call!(guest, fd_close(copy)).unwrap();
    assert_eq!(guest.wasi.vfs().inodes_used(), guest_inodes());
}

fn guest_inodes() -> u64 {
    guest().wasi.vfs().inodes_used()
}

#[test]
fn it_has_no_right_that_the_other_one_lacks() {
    let mut guest = guest();
    guest.file("a", b"abc");
    let fd = guest.open_to_read("a").unwrap();
    assert_eq!(again(&mut guest, fd, ALL_RIGHTS), Err(Errno::Acces), "asked to write");
    let copy = again(&mut guest, fd, READ).unwrap();
    assert_eq!(guest.read(copy, 10), Ok(b"abc".to_vec()));
    assert_eq!(guest.write(copy, b"x"), Err(Errno::Badf));
}

#[test]
fn streams_and_directories_have_names_too() {
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
fn what_is_not_open_and_what_names_nothing_is_not_there() {
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

#[test]
fn descriptors_are_counted_however_they_are_opened() {
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

#[test]
fn the_space_device_says_what_is_left() {
    let mut guest = guest();
    let path = SPACE_DEVICE.strip_prefix('/').unwrap();
    let fd = guest.open_at(ROOT, path, 0, READ, 0).unwrap();
    let read = |guest: &mut Guest| {
        let text = String::from_utf8(guest.read(fd, 100).unwrap()).unwrap();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect::<Vec<u64>>()
    };
    let before = read(&mut guest);
    assert_eq!((before[0], before[2]), (1 << 20, 50));
    guest.file("a", &[1; 5_000]);
    let after = read(&mut guest);
    assert!(after[1] >= before[1] + 8_192 && after[3] == before[3] + 1, "{before:?} {after:?}");
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Badf));
}

/// Returns a request to the scrypt device, with r = 8 and p = 1, for a key of 16 bytes.
fn scrypt_request(log_n: u32, password: &[u8]) -> Vec<u8> {
    let numbers = [log_n, 8, 1, 16, u32::try_from(password.len()).unwrap()];
    [numbers.map(u32::to_le_bytes).as_flattened(), password].concat()
}

#[test]
fn the_scrypt_device_has_a_limit_on_a_request_and_its_work_is_paid_before() {
    let mut guest = guest();
    let fd = guest.open_at(ROOT, SCRYPT_DEVICE.strip_prefix('/').unwrap(), 0, ALL_RIGHTS, 0).unwrap();
    // The guest's memory is smaller than such a request, so the pieces overlap.
    let mut write = |len: u32| {
        let header = [1, 8, 1, 16, len - 20].map(u32::to_le_bytes);
        guest.put(DATA, header.as_flattened());
        let half = (len - 20) / 2;
        let count = guest.iovs(&[(DATA, 20), (DATA, half), (DATA, len - 20 - half)]);
        call!(guest, fd_write(fd, IOVS, count, OUT))
    };
    assert_eq!(write(1 << 20), Ok(()));
    assert_eq!(write((1 << 20) + 1), Err(Errno::TooBig));
    assert_eq!(guest.read(fd, 100).map(|key| key.len()), Ok(16), "that of the first");
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()), "it is read once");
    let charged = guest.host.charged;
    guest.write(fd, &scrypt_request(10, b"password")).unwrap();
    assert!(guest.host.charged - charged >= prices::SCRYPT_BLOCK * (8 << 10));
    // Work beyond the maximum is refused without a charge.
    let charged = guest.host.charged;
    assert_eq!(guest.write(fd, &scrypt_request(17, b"password")), Err(Errno::TooBig));
    assert!(guest.host.charged - charged < prices::SCRYPT_BLOCK * MAX_SCRYPT_BLOCKS);
    assert_eq!(guest.write(fd, b"short"), Err(Errno::Inval));
}
