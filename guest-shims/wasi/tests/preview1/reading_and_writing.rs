use glovebox_vfs::VfsLimits;
use glovebox_wasi::{Errno, SecurityEvent, Stop};

use crate::support::{ALL_RIGHTS, APP, APPEND, CREAT, DATA, Guest, IOVS, OUT, TRUNC, call};

#[test]
fn written_data_is_read_with_any_iovecs() {
    let mut guest = Guest::new();
    guest.put(DATA, b"hello, world");
    let fd = guest.open("file", CREAT).unwrap();
    let count = guest.iovs(&[(DATA, 5), (DATA + 5, 0), (DATA + 5, 7)]);
    call!(guest, fd_write(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 12);
    call!(guest, fd_seek(fd, 0, 0, OUT)).unwrap();
    let count = guest.iovs(&[(DATA + 100, 1), (DATA + 200, 4), (DATA + 300, 50)]);
    call!(guest, fd_read(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 12);
    assert_eq!(guest.get(DATA + 100, 2), b"h\0");
    assert_eq!(guest.get(DATA + 200, 5), b"ello\0");
    assert_eq!(guest.get(DATA + 300, 8), b", world\0");
    assert_eq!(guest.read(fd, 10).unwrap(), b"");
}

#[test]
fn large_transfers_are_complete() {
    let mut guest = Guest::new();
    let content: Vec<u8> = (0..300_000_u32).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
    guest.file("file", &content);
    assert_eq!(guest.content("file"), content[..0x40000]);
    assert_eq!(guest.stat(APP, "file").unwrap().2, 300_000);
}

#[test]
fn positional_transfers_leave_the_position_alone() {
    let mut guest = Guest::new();
    guest.file("file", b"0123456789");
    let fd = guest.open("file", 0).unwrap();
    let count = guest.iovs(&[(DATA, 3)]);
    call!(guest, fd_pread(fd, IOVS, count, 4, OUT)).unwrap();
    assert_eq!((guest.u32_at(OUT), guest.get(DATA, 3)), (3, b"456".to_vec()));
    call!(guest, fd_pwrite(fd, IOVS, count, 8, OUT)).unwrap();
    call!(guest, fd_tell(fd, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 0);
    assert_eq!(guest.content("file"), b"01234567456");
    call!(guest, fd_pread(fd, IOVS, count, u64::MAX, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 0);
    assert!(matches!(call!(guest, fd_pwrite(fd, IOVS, count, u64::MAX, OUT)), Err(Errno::Fbig | Errno::NoSpc)));
}

#[test]
fn append_writes_to_the_current_end() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let log = guest.open_at(APP, "file", 0, ALL_RIGHTS, APPEND).unwrap();
    let other = guest.open("file", 0).unwrap();
    call!(guest, fd_seek(log, 0, 0, OUT)).unwrap();
    guest.write(log, b"1").unwrap();
    call!(guest, fd_seek(other, 0, 2, OUT)).unwrap();
    guest.write(other, b"2").unwrap();
    guest.write(log, b"3").unwrap();
    call!(guest, fd_tell(log, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 6);
    let count = guest.iovs(&[(DATA, 1)]);
    guest.put(DATA, b"X");
    call!(guest, fd_pwrite(log, IOVS, count, 0, OUT)).unwrap();
    assert_eq!(guest.content("file"), b"Xbc123", "in POSIX, `pwrite` ignores append mode");
}

#[test]
fn writing_past_the_end_leaves_zeros() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT).unwrap();
    call!(guest, fd_seek(fd, 3, 0, OUT)).unwrap();
    guest.write(fd, b"x").unwrap();
    assert_eq!(guest.content("file"), b"\0\0\0x");
}

#[test]
fn removed_file_is_usable_until_it_is_closed() {
    let mut guest = Guest::new();
    let before = guest.wasi.vfs().bytes_used();
    let fd = guest.open("file", CREAT).unwrap();
    guest.write(fd, b"abc").unwrap();
    let len = guest.path("file");
    call!(guest, path_unlink_file(APP, crate::support::PATH, len)).unwrap();
    assert_eq!(guest.stat(APP, "file"), Err(Errno::NoEnt));
    guest.write(fd, &[b'x'; 10_000]).unwrap();
    call!(guest, fd_seek(fd, 1, 0, OUT)).unwrap();
    assert_eq!(guest.read(fd, 4).unwrap(), b"bcxx");
    assert!(guest.wasi.vfs().bytes_used() >= before + 10_000);
    call!(guest, fd_close(fd)).unwrap();
    assert!(guest.wasi.vfs().bytes_used() < before + 1_000);
}

#[test]
fn file_opens_with_requested_rights_only() {
    let mut guest = Guest::new();
    guest.file("file", b"abc");
    let reader = guest.open_to_read("file").unwrap();
    assert_eq!(guest.write(reader, b"x"), Err(Errno::Badf));
    let writer = guest.open_at(APP, "file", 0, ALL_RIGHTS & !2, 0).unwrap();
    assert_eq!(guest.read(writer, 1), Err(Errno::Badf));
    let count = guest.iovs(&[(DATA, 1)]);
    assert_eq!(call!(guest, fd_pread(writer, IOVS, count, 0, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, fd_pwrite(reader, IOVS, count, 0, OUT)), Err(Errno::Badf));
}

#[test]
fn a_directory_is_not_read_or_written_as_a_file() {
    let mut guest = Guest::new();
    assert_eq!(guest.read(APP, 1), Err(Errno::IsDir));
    assert_eq!(guest.write(APP, b"x"), Err(Errno::Badf));
    let count = guest.iovs(&[(DATA, 1)]);
    assert_eq!(call!(guest, fd_pread(APP, IOVS, count, 0, OUT)), Err(Errno::IsDir));
    assert_eq!(call!(guest, fd_pwrite(APP, IOVS, count, 0, OUT)), Err(Errno::Badf));
    assert_eq!(guest.read(1000, 1), Err(Errno::Badf));
}

#[test]
fn a_bad_address_has_no_effect() {
    let mut guest = Guest::new();
    guest.file("file", b"abcdef");
    let fd = guest.open("file", 0).unwrap();
    let end = u32::try_from(guest.host.memory.len()).unwrap();
    for iovs in [[(DATA, 2), (end, 1)], [(DATA, 2), (u32::MAX, u32::MAX)], [(DATA, 2), (end - 1, 2)]] {
        let count = guest.iovs(&iovs);
        assert_eq!(call!(guest, fd_read(fd, IOVS, count, OUT)), Err(Errno::Fault));
        assert_eq!(call!(guest, fd_write(fd, IOVS, count, OUT)), Err(Errno::Fault));
        assert_eq!(call!(guest, fd_write(1, IOVS, count, OUT)), Err(Errno::Fault));
    }
    let count = guest.iovs(&[(DATA, 2)]);
    assert_eq!(call!(guest, fd_write(fd, IOVS, count, u32::MAX)), Err(Errno::Fault));
    assert_eq!(call!(guest, fd_read(fd, u32::MAX - 6, 1, OUT)), Err(Errno::Fault));
    call!(guest, fd_tell(fd, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 0);
    assert_eq!(guest.content("file"), b"abcdef");
    assert!(guest.wasi.take_output().stdout.bytes.is_empty());
    // The last byte of memory is accessible.
    let count = guest.iovs(&[(end - 1, 1)]);
    call!(guest, fd_read(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.host.memory.last(), Some(&b'a'));
}

#[test]
fn number_of_iovecs_is_limited() {
    let mut guest = Guest::new();
    for (count, expected) in [(1023, Ok(())), (1024, Ok(())), (1025, Err(Errno::Inval)), (u32::MAX, Err(Errno::Inval))]
    {
        guest.iovs(&[(DATA, 1); 1024]);
        assert_eq!(call!(guest, fd_write(1, IOVS, count, OUT)), expected);
    }
    assert_eq!(guest.wasi.take_output().stdout.total_bytes, 2047);
    assert_eq!(call!(guest, fd_write(1, IOVS, 0, OUT)), Ok(()));
    assert_eq!(guest.u32_at(OUT), 0);
}

#[test]
fn total_iovec_length_beyond_a_c_size_is_invalid() {
    let mut guest = Guest::new();
    guest.host.memory.resize(4 << 20, 0);
    let count = guest.iovs(&vec![(0, 4 << 20); 512]);
    assert_eq!(call!(guest, fd_read(0, IOVS, count, OUT)), Err(Errno::Inval));
    let count = guest.iovs(&vec![(0, 4 << 20); 511]);
    assert_eq!(call!(guest, fd_read(0, IOVS, count, OUT)), Ok(()));
}

#[test]
fn full_workspace_writes_partially_then_recovers() {
    let limits = VfsLimits { bytes: 200_000, ..VfsLimits::default() };
    let mut guest = Guest::with(limits, |_| ());
    let fd = guest.open("file", CREAT).unwrap();
    let written = guest.write(fd, &[b'x'; 300_000]).unwrap();
    assert!(written > 100_000 && written < 200_000, "{written}");
    assert_eq!(guest.stat(APP, "file").unwrap().2, u64::from(written));
    assert_eq!(guest.write(fd, &[b'x'; 100_000]), Err(Errno::NoSpc));
    assert!(matches!(guest.wasi.take_events().as_slice(), [SecurityEvent::QuotaExceeded { count: 2 }]));
    call!(guest, fd_filestat_set_size(fd, 0)).unwrap();
    call!(guest, fd_seek(fd, 0, 0, OUT)).unwrap();
    assert_eq!(guest.write(fd, &[b'y'; 100_000]), Ok(100_000));
}

#[test]
fn the_memory_limit_counts_files_beside_linear_memory() {
    let mut guest = Guest::new();
    let limit = guest.wasi.limits().memory_bytes;
    guest.file("file", &[1; 100_000]);
    guest.wasi.set_linear_memory_bytes(limit - guest.wasi.host_bytes() - 50_000);
    let fd = guest.open("file", 0).unwrap();
    call!(guest, fd_seek(fd, 0, 2, OUT)).unwrap();
    assert_eq!(guest.write(fd, &[2; 200_000]), Err(Errno::NoSpc));
    assert_eq!(guest.write(fd, &[2; 10_000]), Ok(10_000));
    assert!(guest.wasi.room_bytes() < 50_000);
    assert_eq!(guest.content("file").len(), 110_000);
    guest.wasi.set_linear_memory_bytes(0);
    assert_eq!(guest.write(fd, &[2; 200_000]), Ok(200_000));
}

#[test]
fn read_cost_depends_on_available_bytes() {
    let mut guest = Guest::new();
    guest.file("file", &[1; 100]);
    let fd = guest.open_to_read("file").unwrap();
    let before = guest.host.charged;
    guest.read(fd, 900_000).unwrap();
    assert!(guest.host.charged - before < 2_000, "{}", guest.host.charged - before);
    let before = guest.host.charged;
    guest.file("file", &[1; 100_000]);
    assert!(guest.host.charged - before >= 50_000);
}

#[test]
fn unpaid_write_has_no_effect() {
    let mut guest = Guest::new();
    let fd = guest.open("file", CREAT | TRUNC).unwrap();
    let count = guest.iovs(&[(DATA, 600_000)]);
    guest.host.fuel = 40_000;
    assert_eq!(guest.wasi.fd_write(&mut guest.host, fd, IOVS, count, OUT), Err(Stop::OutOfFuel));
    guest.host.fuel = u64::MAX;
    assert!(guest.stat(APP, "file").unwrap().2 <= 65_536);
}
