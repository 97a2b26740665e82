//! Tests of all devices except the tools device: null, displays, space, scrypt and text.

use glovebox_vfs::{Access, VfsLimits};
use glovebox_wasi::{
    CapturedDisplays, DISPLAYS_DEVICE, Errno, MAX_DISPLAYS, MAX_SCRYPT_BLOCKS, MAX_TEXT_BYTES, Mount, NULL_DEVICE,
    SCRYPT_DEVICE, SPACE_DEVICE, TEXT_DEVICE, Wasi, WasiConfig, WasiError, WasiLimits, prices,
};

use crate::support::{
    ALL_RIGHTS, APP, APPEND, CREAT, DATA, DIRECTORY, EXCL, Guest, IOVS, OTHER_PATH, OUT, PATH, READ, STAT, TRUNC, call,
};

const ROOT: u32 = 4;
const DEVICE: &str = "dev/null";

fn guest() -> Guest {
    Guest::with(VfsLimits { bytes: 0, ..VfsLimits::default() }, |config| config.root_preopen = true)
}

fn open(guest: &mut Guest) -> u32 {
    guest.open_at(ROOT, DEVICE, 0, ALL_RIGHTS, 0).unwrap()
}

#[test]
fn null_device_reads_eof_and_discards_writes() {
    let mut guest = guest();
    let held = guest.wasi.host_bytes();
    for (oflags, flags) in [(0, 0), (CREAT, 0), (TRUNC, 0), (CREAT | TRUNC, APPEND)] {
        let fd = guest.open_at(ROOT, DEVICE, oflags, ALL_RIGHTS, flags).unwrap();
        assert_eq!(guest.read(fd, 100), Ok(Vec::new()));
        assert_eq!(guest.write(fd, b"abc"), Ok(3));
        assert_eq!(guest.write(fd, b""), Ok(0));
        assert_eq!(guest.read(fd, 100), Ok(Vec::new()), "written bytes are discarded");
        let count = guest.iovs(&[(DATA, 10), (DATA, 0), (DATA + 5, 7)]);
        call!(guest, fd_pread(fd, IOVS, count, 1 << 40, OUT)).unwrap();
        assert_eq!(guest.u32_at(OUT), 0);
        call!(guest, fd_pwrite(fd, IOVS, count, u64::MAX, OUT)).unwrap();
        assert_eq!(guest.u32_at(OUT), 17);
    }
    assert_eq!(guest.wasi.host_bytes(), held, "the device retains nothing, even if the workspace has no space");
    assert!(guest.host.messages.is_empty());
    assert!(guest.wasi.take_events().is_empty());
}

#[test]
fn null_device_discards_two_gigabytes_unread() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let count = guest.iovs(&[(0, 1 << 20); 1024]);
    let (charged, moved) = (guest.host.charged, guest.host.moved);
    call!(guest, fd_write(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 1 << 30);
    assert_eq!(guest.host.charged - charged, prices::CALL + 1024 * prices::ELEMENT);
    assert!(guest.host.moved - moved < 1 << 14);
    let count = guest.iovs(&[(0, 1 << 20), (u32::MAX, 1)]);
    assert_eq!(call!(guest, fd_write(fd, IOVS, count, OUT)), Err(Errno::Fault), "addresses are still checked");
}

#[test]
fn null_device_seeks_stay_at_zero() {
    let mut guest = guest();
    let fd = open(&mut guest);
    for (offset, whence) in [(0, 0), (5, 0), (-7, 1), (i64::MAX, 2)] {
        guest.put(OUT, &[0xFF; 8]);
        call!(guest, fd_seek(fd, offset, whence, OUT)).unwrap();
        assert_eq!(guest.u64_at(OUT), 0);
    }
    assert_eq!(call!(guest, fd_seek(fd, 0, 3, OUT)), Err(Errno::Inval));
    call!(guest, fd_tell(fd, OUT)).unwrap();
    assert_eq!(guest.u64_at(OUT), 0);
    let other = guest.open_at(ROOT, DEVICE, 0, 1 << 1, 0).unwrap();
    assert_eq!(call!(guest, fd_seek(other, 0, 0, OUT)), Err(Errno::NotCapable));
    assert_eq!(call!(guest, fd_filestat_set_size(fd, 0)), Err(Errno::Inval));
    assert_eq!(call!(guest, fd_filestat_set_times(fd, 0, 0, 0)), Err(Errno::Rofs));
    assert_eq!(call!(guest, fd_readdir(fd, DATA, 100, 0, OUT)), Err(Errno::NotDir));
}

#[test]
fn device_is_a_character_device_but_not_a_terminal() {
    let mut guest = guest();
    let (kind, inode, size) = guest.stat(ROOT, DEVICE).unwrap();
    assert_eq!((kind, size), (2, 0));
    assert_ne!(inode, guest.stat(ROOT, "dev/glovebox/tools").unwrap().1);
    let fd = open(&mut guest);
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!((guest.get(STAT + 16, 1), guest.u64_at(STAT + 8)), (vec![2], inode));
    call!(guest, fd_fdstat_get(fd, STAT)).unwrap();
    // wasi-libc's `isatty` looks for a character device without the rights to seek and tell.
    assert_eq!((guest.get(STAT, 1), guest.u64_at(STAT + 8) & (1 << 2 | 1 << 5)), (vec![2], 1 << 2 | 1 << 5));
    assert_eq!(guest.u64_at(STAT + 16), 0, "a device has no inheriting rights");
    for event_type in [1, 2] {
        guest.put(DATA, &[0; 48]);
        guest.put(DATA + 8, &[event_type]);
        guest.put(DATA + 16, &fd.to_le_bytes());
        call!(guest, poll_oneoff(DATA, DATA + 100, 1, OUT)).unwrap();
        assert_eq!(guest.u32_at(OUT), 1, "a device is always ready");
    }
}

#[test]
fn device_is_found_by_its_path_only() {
    let mut guest = guest();
    for path in ["./dev/null", "dev//null", "app/../dev/./null"] {
        // A path that leaves a mount is refused, even if it leads to the device.
        let found = guest.open_at(ROOT, path, 0, READ, 0);
        assert_eq!(found.is_ok(), !path.starts_with("app"), "{path}");
    }
    for path in ["dev/null/", "dev/null/x", "dev/null/.."] {
        assert_eq!(guest.open_at(ROOT, path, 0, READ, 0), Err(Errno::NotDir), "{path}");
    }
    for path in ["dev", "dev/nul", "dev/nullx", "dev/zero"] {
        assert_eq!(guest.open_at(ROOT, path, 0, READ, 0), Err(Errno::Acces), "{path}");
        assert_eq!(guest.stat(ROOT, path), Err(Errno::NoEnt), "{path}");
    }
    assert_eq!(guest.open_at(ROOT, DEVICE, CREAT | EXCL, READ, 0), Err(Errno::Exist));
    assert_eq!(guest.open_at(ROOT, DEVICE, DIRECTORY, READ, 0), Err(Errno::NotDir));
    assert_eq!(guest.open(DEVICE, 0), Err(Errno::NoEnt), "devices do not exist below a mount");
    assert_eq!(guest.names(ROOT, 4096), [".", "..", "app"]);
}

#[test]
fn device_name_cannot_be_replaced_removed_or_moved() {
    let mut guest = Guest::with(VfsLimits::default(), |config| config.root_preopen = true);
    guest.file("file", b"");
    let (device, file) = (guest.path(DEVICE), guest.other_path("file"));
    for refused in [
        call!(guest, path_unlink_file(ROOT, PATH, device)),
        call!(guest, path_remove_directory(ROOT, PATH, device)),
        call!(guest, path_create_directory(ROOT, PATH, device)),
        call!(guest, path_filestat_set_times(ROOT, 0, PATH, device, 0, 0, 0)),
        call!(guest, path_symlink(OTHER_PATH, file, ROOT, PATH, device)),
        call!(guest, path_link(ROOT, 0, PATH, device, APP, OTHER_PATH, file)),
        call!(guest, path_link(APP, 0, OTHER_PATH, file, ROOT, PATH, device)),
        call!(guest, path_rename(ROOT, PATH, device, APP, OTHER_PATH, file)),
        call!(guest, path_rename(APP, OTHER_PATH, file, ROOT, PATH, device)),
    ] {
        assert!(refused.is_err());
    }
    assert!(guest.stat(ROOT, DEVICE).is_ok() && guest.stat(APP, "file").is_ok());
    for path in [NULL_DEVICE.to_owned(), format!("{NULL_DEVICE}/x")] {
        let root = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
        let refused = guest.wasi.add_mount(Mount::new(path.clone(), root));
        assert_eq!(refused, Err(WasiError::MountAtDevice(path)));
    }
}

#[test]
fn mounts_do_not_hide_the_device() {
    let mut vfs = glovebox_vfs::Vfs::new(VfsLimits::default());
    let root = vfs.add_root(Access::ReadWrite);
    vfs.write_file(root, DEVICE, b"false").unwrap();
    let mut config = WasiConfig::new(vfs);
    config.mounts.push(Mount::new("/", root));
    let mut guest = Guest { wasi: Wasi::new(config).unwrap(), ..Guest::new() };
    let fd = guest.open_at(3, DEVICE, TRUNC, ALL_RIGHTS, 0).unwrap();
    assert_eq!(guest.read(fd, 10), Ok(Vec::new()));
    assert_eq!(guest.wasi.vfs_mut().read_file(root, DEVICE, 10).unwrap(), b"false");
}

#[test]
fn device_descriptor_survives_fork_and_restore() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let reader = guest.open_at(ROOT, DEVICE, 0, 1 << 1, 0).unwrap();
    let mut fork = Guest { wasi: guest.wasi.clone(), ..Guest::new() };
    assert_eq!(fork.write(fd, b"in the fork"), Ok(11));
    let saved = guest.wasi.save();
    let mut resumed = self::guest();
    resumed.wasi.restore(&saved).unwrap();
    assert_eq!(resumed.wasi.save(), saved);
    assert_eq!((resumed.write(fd, b"abc"), resumed.read(fd, 3)), (Ok(3), Ok(Vec::new())));
    assert_eq!(resumed.write(reader, b"x"), Err(Errno::Badf), "restoring keeps the rights");
    assert_eq!(resumed.host.messages.len(), 0);
}

fn with_limits(limits: WasiLimits) -> (Guest, u32) {
    let mut guest = Guest::with(VfsLimits::default(), |config| {
        config.root_preopen = true;
        config.limits = limits;
    });
    let fd = guest.open_at(ROOT, DISPLAYS_DEVICE.trim_start_matches('/'), 0, ALL_RIGHTS, 0).unwrap();
    (guest, fd)
}

fn shown(guest: &mut Guest) -> CapturedDisplays {
    guest.wasi.take_output().displays
}

#[test]
fn display_device_records_each_write() {
    let (mut guest, fd) = with_limits(WasiLimits::default());
    assert_eq!(guest.write(fd, b"one"), Ok(3));
    assert_eq!(guest.write(fd, b""), Ok(0), "an empty write is not a display");
    guest.put(DATA, b"twothree");
    let count = guest.iovs(&[(DATA, 3), (DATA, 0), (DATA + 3, 5)]);
    call!(guest, fd_write(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 8);
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()));
    assert_eq!(call!(guest, fd_pwrite(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
    assert_eq!(
        shown(&mut guest),
        CapturedDisplays { messages: vec![b"one".to_vec(), b"twothree".to_vec()], dropped: 0 }
    );
    assert_eq!(shown(&mut guest), CapturedDisplays::default(), "taken");
    guest.write(fd, b"of an earlier execution").unwrap();
    guest.wasi.begin_execution();
    assert_eq!(shown(&mut guest), CapturedDisplays::default());
}

#[test]
fn displays_after_an_oversized_one_are_dropped() {
    let (mut guest, fd) = with_limits(WasiLimits { display_bytes: 10, ..WasiLimits::default() });
    for (writes, held, dropped) in
        [(&[4, 5][..], 2, 0), (&[4, 6], 2, 0), (&[4, 7], 1, 1), (&[11, 1, 1], 0, 3), (&[10, 1], 1, 1)]
    {
        for length in writes {
            assert_eq!(guest.write(fd, &vec![b'x'; *length]), Ok(u32::try_from(*length).unwrap()));
        }
        let shown = shown(&mut guest);
        assert_eq!((shown.messages.len(), shown.dropped), (held, dropped), "{writes:?}");
        assert_eq!(std::mem::take(&mut guest.host.displays), shown.messages, "the host receives no dropped display");
    }
}

#[test]
fn number_of_retained_displays_is_limited() {
    for (count, dropped) in [(MAX_DISPLAYS - 1, 0), (MAX_DISPLAYS, 0), (MAX_DISPLAYS + 1, 1)] {
        let (mut guest, fd) = with_limits(WasiLimits::default());
        for _ in 0..count {
            guest.write(fd, b"x").unwrap();
        }
        let shown = shown(&mut guest);
        assert_eq!((shown.messages.len(), shown.dropped), (count.min(MAX_DISPLAYS), dropped));
    }
}

#[test]
fn displays_count_as_memory_and_cost_fuel() {
    let (mut guest, fd) = with_limits(WasiLimits::default());
    let (held, room) = (guest.wasi.host_bytes(), guest.wasi.room_bytes());
    let fuel = guest.host.fuel;
    guest.write(fd, &[b'x'; 1_000]).unwrap();
    let paid = fuel - guest.host.fuel;
    assert!(paid >= prices::DISPLAY + 2_000 * prices::BYTE, "{paid}");
    assert_eq!((guest.wasi.host_bytes() - held, room - guest.wasi.room_bytes()), (1_000, 1_000));
    guest.wasi.set_linear_memory_bytes(guest.wasi.limits().memory_bytes);
    guest.write(fd, b"x").unwrap();
    assert_eq!(shown(&mut guest).dropped, 1, "the display exceeds the memory limit");
}

fn guest_with_space() -> Guest {
    Guest::with(VfsLimits { bytes: 1 << 20, inodes: 50, ..VfsLimits::default() }, |config| config.root_preopen = true)
}

#[test]
fn space_device_reports_free_bytes() {
    let mut guest = guest_with_space();
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

/// Returns a request to the scrypt device for a key of 16 bytes, with r = 8 and p = 1.
fn scrypt_request(log_n: u32, password: &[u8]) -> Vec<u8> {
    let numbers = [log_n, 8, 1, 16, u32::try_from(password.len()).unwrap()];
    [numbers.map(u32::to_le_bytes).as_flattened(), password].concat()
}

#[test]
fn scrypt_device_limits_and_prepays_requests() {
    let mut guest = guest_with_space();
    let fd = guest.open_at(ROOT, SCRYPT_DEVICE.strip_prefix('/').unwrap(), 0, ALL_RIGHTS, 0).unwrap();
    // The guest's memory is smaller than the largest request, so the regions overlap.
    let mut write = |len: u32| {
        let header = [1, 8, 1, 16, len - 20].map(u32::to_le_bytes);
        guest.put(DATA, header.as_flattened());
        let half = (len - 20) / 2;
        let count = guest.iovs(&[(DATA, 20), (DATA, half), (DATA, len - 20 - half)]);
        call!(guest, fd_write(fd, IOVS, count, OUT))
    };
    assert_eq!(write(1 << 20), Ok(()));
    assert_eq!(write((1 << 20) + 1), Err(Errno::TooBig));
    assert_eq!(guest.read(fd, 100).map(|key| key.len()), Ok(16), "the key of the first request");
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()), "a reply is read once");
    let charged = guest.host.charged;
    guest.write(fd, &scrypt_request(10, b"password")).unwrap();
    assert!(guest.host.charged - charged >= prices::SCRYPT_BLOCK * (8 << 10));
    // A derivation beyond the maximum is refused without a charge.
    let charged = guest.host.charged;
    assert_eq!(guest.write(fd, &scrypt_request(17, b"password")), Err(Errno::TooBig));
    assert!(guest.host.charged - charged < prices::SCRYPT_BLOCK * MAX_SCRYPT_BLOCKS);
    assert_eq!(guest.write(fd, b"short"), Err(Errno::Inval));
}

#[test]
fn text_device_limits_and_prepays_requests() {
    let mut guest = guest_with_space();
    let fd = guest.open_at(ROOT, TEXT_DEVICE.strip_prefix('/').unwrap(), 0, ALL_RIGHTS, 0).unwrap();
    let max = u32::try_from(MAX_TEXT_BYTES).unwrap();
    // The guest's memory is smaller than the largest request, so the regions overlap.
    let mut write = |len: u32| {
        guest.put(DATA, &[6, 0]);
        let half = (len - 2) / 2;
        let count = guest.iovs(&[(DATA, 2), (DATA, half), (DATA, len - 2 - half)]);
        call!(guest, fd_write(fd, IOVS, count, OUT))
    };
    assert_eq!(write(max - 1), Ok(()));
    assert_eq!(write(max), Ok(()));
    assert_eq!(write(max + 1), Err(Errno::TooBig));
    let charged = guest.host.charged;
    guest.write(fd, &[6, 0, 0x93, 0xfa]).unwrap();
    assert!(guest.host.charged - charged >= prices::DECODED_BYTE * 4);
    assert_eq!(guest.read(fd, 100), Ok([&[3, 0, 0, 0, 0], "日".as_bytes()].concat()));
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()), "a reply is read once");
    assert_eq!(guest.write(fd, &[7, 0]), Err(Errno::Inval));
    assert_eq!(guest.write(fd, &[6, 1, 0xff]), Err(Errno::Ilseq));
    assert_eq!(guest.write(fd, b""), Err(Errno::Inval));
}

#[test]
fn replies_of_scrypt_and_text_devices_count_as_memory() {
    let mut guest = guest_with_space();
    let mut open = |device: &str| guest.open_at(ROOT, device.strip_prefix('/').unwrap(), 0, ALL_RIGHTS, 0).unwrap();
    let (scrypt, text) = (open(SCRYPT_DEVICE), open(TEXT_DEVICE));
    let (key, word) = (scrypt_request(1, b"password"), [6_u8, 0, 0x93, 0xfa]);
    let held = guest.wasi.host_bytes();
    guest.write(scrypt, &key).unwrap();
    assert_eq!(guest.wasi.host_bytes(), held + 16);
    guest.write(text, &word).unwrap();
    assert_eq!(guest.wasi.host_bytes(), held + 24);
    guest.wasi.begin_execution();
    assert_eq!(guest.wasi.host_bytes(), held);
    let limit = guest.wasi.limits().memory_bytes;
    // With N = 2, r = 8 and p = 1, a derivation takes 24 blocks of 128 bytes and the key. Text takes at most three
    // times the request.
    let needed = [(scrypt, &key[..], 24 * 128 + 16), (text, &word[..], 12)];
    for (fd, request, needed) in needed {
        for (room, fits) in [(needed - 1, false), (needed, true), (needed + 1, true)] {
            guest.wasi.begin_execution();
            guest.wasi.set_linear_memory_bytes(limit - held - room);
            let written = guest.write(fd, request).map(drop);
            assert_eq!(written, if fits { Ok(()) } else { Err(Errno::NoMem) }, "{room}");
        }
    }
}
