use glovebox_vfs::VfsLimits;
use glovebox_wasi::{Errno, SecurityEvent, WasiLimits};

use crate::support::{APP, CREAT, Guest, OUT, call};

#[test]
fn open_files_under_at_and_over_their_limit_and_usable_after() {
    let limits = WasiLimits { open_files: 6, ..WasiLimits::default() };
    let mut guest = Guest::with(VfsLimits::default(), |config| config.limits = limits);
    let first = guest.open("a", CREAT).unwrap();
    let second = guest.open("b", CREAT).unwrap();
    assert_eq!((first, second), (4, 5), "three streams and a preopen are open already");
    assert_eq!(guest.open("c", CREAT), Err(Errno::Mfile));
    assert_eq!(guest.stat(APP, "c"), Err(Errno::NoEnt), "nothing was created for a descriptor that was refused");
    assert_eq!(guest.wasi.take_events(), [SecurityEvent::OpenFileLimit { count: 1 }]);
    call!(guest, fd_close(first)).unwrap();
    assert_eq!(guest.open("c", CREAT), Ok(first));
    call!(guest, fd_renumber(first, second)).unwrap();
    assert_eq!(guest.open("d", CREAT), Ok(first));
    assert_eq!(guest.open("e", CREAT), Err(Errno::Mfile));
}

#[test]
fn opening_and_closing_for_ever_holds_nothing() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let before = guest.wasi.host_bytes();
    for _ in 0..10_000 {
        let fd = guest.open("file", CREAT).unwrap();
        call!(guest, fd_close(fd)).unwrap();
        assert_eq!(guest.open("none", 0), Err(Errno::NoEnt));
    }
    assert_eq!(guest.wasi.host_bytes(), before);
}

#[test]
fn inodes_under_at_and_over_their_limit() {
    let mut guest = Guest::with(VfsLimits { inodes: 20, ..VfsLimits::default() }, |_| ());
    let mut made = 0;
    let refused = loop {
        match guest.make_dir(&format!("d{made}")) {
            Ok(()) => made += 1,
            Err(errno) => break errno,
        }
    };
    assert_eq!(refused, Errno::NoSpc);
    assert!((18..=20).contains(&made), "{made}");
    assert_eq!(guest.open("file", CREAT), Err(Errno::NoSpc));
    assert_eq!(guest.wasi.take_events(), [SecurityEvent::QuotaExceeded { count: 2 }]);
    let len = guest.path("d0");
    call!(guest, path_remove_directory(APP, crate::support::PATH, len)).unwrap();
    assert!(guest.open("file", CREAT).is_ok());
}

#[test]
fn a_terabyte_of_nothing_is_refused() {
    let mut guest = Guest::new();
    let fd = guest.open("sparse", CREAT).unwrap();
    assert!(call!(guest, fd_filestat_set_size(fd, 1 << 40)).is_err());
    call!(guest, fd_seek(fd, 1 << 40, 0, OUT)).unwrap();
    assert!(guest.write(fd, b"x").is_err());
    assert!(guest.wasi.host_bytes() < 100_000);
}

#[test]
fn what_the_host_holds_is_told() {
    let mut guest = Guest::new();
    let empty = guest.wasi.host_bytes();
    guest.wasi.set_stdin(vec![0; 1_000]);
    assert_eq!(guest.wasi.host_bytes(), empty + 1_000);
    guest.write(1, &[b'x'; 2_000]).unwrap();
    assert!(guest.wasi.host_bytes() >= empty + 3_000);
    guest.file("file", &[1; 10_000]);
    assert!(guest.wasi.host_bytes() >= empty + 13_000);
    guest.wasi.take_output();
    guest.wasi.set_stdin(Vec::new());
    guest.wasi.begin_execution();
    assert!(guest.wasi.host_bytes() < empty + 15_000);
    assert!(guest.wasi.room_bytes() <= guest.wasi.limits().memory_bytes - guest.wasi.host_bytes());
}

#[test]
fn limits_set_later_hold_from_then_on() {
    let mut guest = Guest::new();
    guest.wasi.set_limits(WasiLimits { stdout_bytes: 2, open_files: 4, ..WasiLimits::default() });
    guest.write(1, b"abc").unwrap();
    assert_eq!(guest.wasi.take_output().stdout.bytes, b"ab");
    assert_eq!(guest.open("file", CREAT), Err(Errno::Mfile));
    guest.wasi.begin_execution();
    guest.write(1, b"abc").unwrap();
    assert_eq!(guest.wasi.take_output().stdout.bytes, b"ab");
}
