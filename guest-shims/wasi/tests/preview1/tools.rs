//! Tests of the tools device: its attributes, and valid and invalid messages.

use glovebox_vfs::{Access, VfsLimits};
use glovebox_wasi::{Errno, Mount, Stop, TOOLS_DEVICE, Wasi, WasiConfig, WasiError, WasiLimits, prices};

use crate::support::{
    ALL_RIGHTS, APP, APPEND, CREAT, DATA, DIRECTORY, EXCL, Guest, IOVS, OTHER_PATH, OUT, PATH, READ, STAT, TRUNC, call,
};

const ROOT: u32 = 4;
const DEVICE: &str = "dev/glovebox/tools";

fn with_limits(limits: WasiLimits) -> Guest {
    Guest::with(VfsLimits::default(), |config| {
        config.root_preopen = true;
        config.limits = limits;
    })
}

fn guest() -> Guest {
    with_limits(WasiLimits::default())
}

fn open(guest: &mut Guest) -> u32 {
    guest.open_at(ROOT, DEVICE, 0, ALL_RIGHTS, 0).unwrap()
}

fn frame(reply: &[u8]) -> Vec<u8> {
    [&u32::try_from(reply.len()).unwrap().to_le_bytes(), reply].concat()
}

#[test]
fn tool_device_exchanges_messages_and_frames() {
    let mut guest = guest();
    let fd = open(&mut guest);
    assert_eq!(guest.write(fd, b"one"), Ok(3));
    guest.put(DATA, b"twothree");
    let count = guest.iovs(&[(DATA, 3), (DATA, 0), (DATA + 3, 5)]);
    call!(guest, fd_write(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.u32_at(OUT), 8);
    assert_eq!(guest.host.messages, [b"one".to_vec(), b"twothree".to_vec()], "one write is one message");

    guest.host.replies.extend([Some(b"first".to_vec()), Some(Vec::new()), Some(b"second".to_vec())]);
    for reply in [&b"first"[..], b"", b"second"] {
        assert_eq!(guest.read(fd, 1_000), Ok(frame(reply)), "a read stops at the end of a reply");
    }
    assert_eq!(guest.read(fd, 1_000), Ok(Vec::new()), "no reply is due");
}

#[test]
fn reply_is_readable_in_pieces_by_any_descriptor() {
    let mut guest = guest();
    let (fd, other) = (open(&mut guest), open(&mut guest));
    guest.host.replies.extend([Some(b"a reply".to_vec()), Some(b"b".to_vec())]);
    let mut got = Vec::new();
    while got.len() < 11 {
        got.extend(guest.read(if got.len() % 2 == 0 { fd } else { other }, 1).unwrap());
    }
    assert_eq!(got, frame(b"a reply"));
    let count = guest.iovs(&[(DATA, 2), (DATA + 2, 0), (DATA + 2, 3)]);
    call!(guest, fd_read(fd, IOVS, count, OUT)).unwrap();
    assert_eq!(guest.get(DATA, guest.u32_at(OUT)), frame(b"b"));
}

#[test]
fn empty_reads_and_writes_skip_the_host() {
    let mut guest = guest();
    let fd = open(&mut guest);
    guest.host.replies.push_back(Some(b"held".to_vec()));
    assert_eq!(guest.write(fd, b""), Ok(0));
    assert_eq!(guest.read(fd, 0), Ok(Vec::new()));
    assert!(guest.host.messages.is_empty() && guest.host.replies.len() == 1);
}

#[test]
fn message_over_the_limit_is_rejected() {
    let mut guest = with_limits(WasiLimits { tool_bytes: 10, ..WasiLimits::default() });
    let fd = open(&mut guest);
    for (len, answer) in [(9, Ok(9)), (10, Ok(10)), (11, Err(Errno::MsgSize)), (10, Ok(10))] {
        assert_eq!(guest.write(fd, &vec![b'x'; len]), answer, "{len}");
    }
    assert_eq!(
        guest.host.messages.iter().map(Vec::len).collect::<Vec<_>>(),
        [9, 10, 10],
        "a message over the limit is not sent"
    );
}

#[test]
fn two_gigabyte_message_is_rejected_unread() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let count = guest.iovs(&vec![(0, 1 << 20); 1024]);
    let (before, moved) = (guest.host.charged, guest.host.moved);
    assert_eq!(call!(guest, fd_write(fd, IOVS, count, OUT)), Err(Errno::MsgSize));
    assert!(guest.host.charged - before < 1 << 20 && guest.host.moved - moved < 1 << 14);
    let count = guest.iovs(&[(DATA, u32::MAX)]);
    assert_eq!(call!(guest, fd_write(fd, IOVS, count, OUT)), Err(Errno::Fault));
    assert!(guest.host.messages.is_empty());
}

#[test]
fn message_over_the_memory_limit_is_rejected() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let room = |guest: &mut Guest, bytes: u64| {
        let limits = *guest.wasi.limits();
        guest.wasi.set_linear_memory_bytes(limits.memory_bytes - guest.wasi.host_bytes() - bytes);
    };
    room(&mut guest, 104);
    assert_eq!(guest.write(fd, &[b'x'; 105]), Err(Errno::NoMem));
    assert_eq!(guest.write(fd, &[b'x'; 104]), Ok(104));
    guest.host.replies.push_back(Some(vec![b'r'; 100]));
    assert_eq!(guest.read(fd, 1).unwrap(), [100]);
    assert_eq!(guest.wasi.room_bytes(), 0, "the reply that is being read is counted");
    guest.read(fd, 1_000).unwrap();
    assert_eq!(guest.wasi.room_bytes(), 104, "a reply that was read is no longer counted");
}

#[test]
fn unread_reply_is_dropped_before_the_next_script() {
    let mut guest = guest();
    let fd = open(&mut guest);
    guest.host.replies.extend([Some(b"of the last script".to_vec()), Some(b"of this one".to_vec())]);
    guest.read(fd, 6).unwrap();
    let held = guest.wasi.host_bytes();
    guest.wasi.begin_execution();
    assert!(guest.wasi.host_bytes() < held);
    assert_eq!(guest.read(fd, 100), Ok(frame(b"of this one")), "the descriptor itself stays open");
}

#[test]
fn messages_and_replies_are_prepaid() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let spent = |guest: &mut Guest, work: &mut dyn FnMut(&mut Guest)| {
        let before = guest.host.charged;
        work(guest);
        guest.host.charged - before
    };
    let sent = spent(&mut guest, &mut |guest| assert_eq!(guest.write(fd, &[b'x'; 1_000]), Ok(1_000)));
    assert_eq!(sent, prices::CALL + prices::ELEMENT + prices::TOOL_MESSAGE + 1_000 * prices::TOOL_BYTE);
    guest.host.replies.push_back(Some(vec![b'x'; 996]));
    let received = spent(&mut guest, &mut |guest| assert_eq!(guest.read(fd, 5_000).unwrap().len(), 1_000));
    assert_eq!(received, sent);

    guest.host.replies.push_back(Some(b"unseen".to_vec()));
    let count = guest.iovs(&[(DATA, 100)]);
    for read in [true, false] {
        guest.host.fuel = prices::CALL + prices::ELEMENT + prices::TOOL_MESSAGE - 1;
        let (wasi, host) = (&mut guest.wasi, &mut guest.host);
        let stop =
            if read { wasi.fd_read(host, fd, IOVS, count, OUT) } else { wasi.fd_write(host, fd, IOVS, count, OUT) };
        assert_eq!(stop, Err(Stop::OutOfFuel));
    }
    assert_eq!((guest.host.messages.len(), guest.host.replies.len()), (1, 1));
}

#[test]
fn host_can_end_the_guest_during_a_write_or_read() {
    let mut guest = guest();
    let fd = open(&mut guest);
    guest.put(DATA, b"stop");
    guest.host.replies.push_back(Some(b"stop".to_vec()));
    let count = guest.iovs(&[(DATA, 4)]);
    assert_eq!(guest.wasi.fd_write(&mut guest.host, fd, IOVS, count, OUT), Err(Stop::Cancelled));
    assert_eq!(guest.wasi.fd_read(&mut guest.host, fd, IOVS, count, OUT), Err(Stop::Deadline));
}

#[test]
fn device_is_a_character_device_but_not_a_terminal() {
    let mut guest = guest();
    assert_eq!(guest.stat(ROOT, DEVICE).unwrap().0, 2);
    let fd = open(&mut guest);
    call!(guest, fd_filestat_get(fd, STAT)).unwrap();
    assert_eq!((guest.get(STAT + 16, 1), guest.u64_at(STAT + 32)), (vec![2], 0));
    assert_eq!(
        guest.stat(ROOT, DEVICE).unwrap().1,
        guest.u64_at(STAT + 8),
        "the inode is the same by path and by descriptor"
    );
    call!(guest, fd_fdstat_get(fd, STAT)).unwrap();
    let (kind, rights) = (guest.get(STAT, 1), guest.u64_at(STAT + 8));
    // wasi-libc's `isatty` looks for a character device without the rights to seek and tell.
    assert_eq!((kind, rights & (1 << 2 | 1 << 5)), (vec![2], 1 << 2 | 1 << 5));
    assert_eq!(guest.u64_at(STAT + 16), 0, "a device has no inheriting rights");
    let directory_rights = (1 << 10) | (1 << 13) | (1 << 14);
    assert_eq!(rights & directory_rights, 0, "a device has no rights for directory operations");
}

#[test]
fn tool_device_rejects_file_operations() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let count = guest.iovs(&[(DATA, 1)]);
    for whence in 0..3 {
        assert_eq!(call!(guest, fd_seek(fd, 0, whence, OUT)), Err(Errno::Spipe));
    }
    assert_eq!(call!(guest, fd_tell(fd, OUT)), Err(Errno::Spipe));
    assert_eq!(call!(guest, fd_pread(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
    assert_eq!(call!(guest, fd_pwrite(fd, IOVS, count, 0, OUT)), Err(Errno::Spipe));
    assert_eq!(call!(guest, fd_advise(fd, 0, 0, 0)), Err(Errno::Spipe));
    assert_eq!(call!(guest, fd_allocate(fd, 0, 1)), Err(Errno::Spipe));
    assert_eq!(call!(guest, fd_filestat_set_size(fd, 0)), Err(Errno::Inval));
    assert_eq!(call!(guest, fd_filestat_set_times(fd, 0, 0, 0)), Err(Errno::Rofs));
    assert_eq!(call!(guest, fd_readdir(fd, DATA, 100, 0, OUT)), Err(Errno::NotDir));
    assert_eq!(call!(guest, fd_prestat_get(fd, OUT)), Err(Errno::Badf));
    assert_eq!(call!(guest, sock_recv(fd, IOVS, count, 0, OUT, OUT)), Err(Errno::NotSock));
    assert_eq!(guest.open_at(fd, "x", 0, READ, 0), Err(Errno::NotDir));
    assert!(call!(guest, fd_sync(fd)).is_ok());
}

#[test]
fn tool_device_accepts_device_open_flags() {
    let mut guest = guest();
    for (oflags, answer) in [
        (0, None),
        (CREAT, None),
        (TRUNC, None),
        (CREAT | TRUNC, None),
        (CREAT | EXCL, Some(Errno::Exist)),
        (DIRECTORY, Some(Errno::NotDir)),
        (CREAT | DIRECTORY, Some(Errno::Inval)),
    ] {
        assert_eq!(guest.open_at(ROOT, DEVICE, oflags, ALL_RIGHTS, APPEND).err(), answer, "{oflags}");
    }
    let only = |guest: &mut Guest, right: u64| guest.open_at(ROOT, DEVICE, 0, right, 0).unwrap();
    let (reader, writer) = (only(&mut guest, 1 << 1), only(&mut guest, 1 << 6));
    assert_eq!(guest.write(reader, b"x"), Err(Errno::Badf));
    assert_eq!(guest.read(writer, 1), Err(Errno::Badf));
    assert_eq!(guest.read(reader, 1), Ok(Vec::new()));
    assert_eq!(guest.write(writer, b"x"), Ok(1));
}

#[test]
fn device_is_found_by_its_path_only() {
    let mut guest = guest();
    for path in ["./dev/glovebox/tools", "dev//glovebox/./tools", "dev/../dev/glovebox/tools", "app/.././x/../dev"] {
        let answer = guest.open_at(ROOT, path, 0, READ, 0);
        assert_eq!(answer.is_ok(), path.ends_with("tools"), "{path}");
    }
    for path in ["dev/glovebox/tools/", "dev/glovebox/tools/.", "dev/glovebox/tools/..", "dev/glovebox/tools/x"] {
        assert_eq!(guest.open_at(ROOT, path, 0, READ, 0), Err(Errno::NotDir), "{path}");
    }
    for path in ["dev", "dev/glovebox", "dev/glovebox/tool", "dev/glovebox/toolsx", "dev/glovebox/tools2"] {
        assert_eq!(guest.open_at(ROOT, path, 0, READ, 0), Err(Errno::Acces), "{path}");
        assert_eq!(guest.stat(ROOT, path), Err(Errno::NoEnt), "{path}");
    }
    assert_eq!(guest.names(ROOT, 4096), [".", "..", "app"]);
    assert_eq!(guest.open(DEVICE, 0), Err(Errno::NoEnt), "devices do not exist below a mount");
    assert_eq!(guest.open("../dev/glovebox/tools", 0), Err(Errno::Acces));
}

#[test]
fn device_name_cannot_be_replaced_removed_or_moved() {
    let mut guest = guest();
    guest.file("file", b"");
    let (device, file) = (guest.path(DEVICE), guest.other_path("file"));
    assert_eq!(call!(guest, path_unlink_file(ROOT, PATH, device)), Err(Errno::Busy));
    assert_eq!(call!(guest, path_remove_directory(ROOT, PATH, device)), Err(Errno::NotDir));
    assert_eq!(call!(guest, path_create_directory(ROOT, PATH, device)), Err(Errno::Exist));
    assert_eq!(call!(guest, path_filestat_set_times(ROOT, 0, PATH, device, 0, 0, 0)), Err(Errno::Rofs));
    assert_eq!(call!(guest, path_readlink(ROOT, PATH, device, DATA, 100, OUT)), Err(Errno::Inval));
    assert_eq!(call!(guest, path_symlink(OTHER_PATH, file, ROOT, PATH, device)), Err(Errno::Exist));
    assert_eq!(call!(guest, path_link(ROOT, 0, PATH, device, APP, OTHER_PATH, file)), Err(Errno::Perm));
    assert_eq!(call!(guest, path_link(APP, 0, OTHER_PATH, file, ROOT, PATH, device)), Err(Errno::Exist));
    assert_eq!(call!(guest, path_rename(ROOT, PATH, device, APP, OTHER_PATH, file)), Err(Errno::Busy));
    assert_eq!(call!(guest, path_rename(APP, OTHER_PATH, file, ROOT, PATH, device)), Err(Errno::Busy));
    assert!(guest.stat(ROOT, DEVICE).is_ok() && guest.stat(APP, "file").is_ok());
}

#[test]
fn tool_descriptor_is_renumbered_closed_and_forked() {
    let mut guest = guest();
    let fd = open(&mut guest);
    let file = guest.open("file", CREAT).unwrap();
    call!(guest, fd_renumber(fd, file)).unwrap();
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Badf));
    assert_eq!(guest.write(file, b"moved"), Ok(5));
    let mut fork = Guest { wasi: guest.wasi.clone(), ..Guest::new() };
    assert_eq!(fork.write(file, b"in the fork"), Ok(11));
    assert_eq!(guest.host.messages, [b"moved"]);
    call!(guest, fd_close(file)).unwrap();
    assert_eq!(guest.write(file, b"x"), Err(Errno::Badf));
    assert_eq!(guest.wasi.open_files(), 0);
}

#[test]
fn tool_descriptors_count_against_the_limit() {
    let mut guest = with_limits(WasiLimits { open_files: 6, ..WasiLimits::default() });
    let fd = open(&mut guest);
    assert_eq!(guest.open_at(ROOT, DEVICE, 0, READ, 0), Err(Errno::Mfile));
    call!(guest, fd_close(fd)).unwrap();
    assert_eq!(open(&mut guest), fd);
}

#[test]
fn mounts_cannot_cover_the_tool_device() {
    let mut guest = guest();
    for path in ["/dev", "/dev/glovebox", "/"] {
        let root = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
        guest.wasi.vfs_mut().write_file(root, "glovebox/tools", b"false").unwrap();
        guest.wasi.vfs_mut().write_file(root, "dev/glovebox/tools", b"false").unwrap();
        guest.wasi.add_mount(Mount::new(path, root)).unwrap();
        let fd = open(&mut guest);
        assert_eq!(guest.write(fd, path.as_bytes()), Ok(u32::try_from(path.len()).unwrap()));
    }
    assert_eq!(guest.host.messages.len(), 3);
    for path in [TOOLS_DEVICE.to_owned(), format!("{TOOLS_DEVICE}/x")] {
        let root = guest.wasi.vfs_mut().add_root(Access::ReadWrite);
        let refused = guest.wasi.add_mount(Mount::new(path.clone(), root));
        assert_eq!(refused, Err(WasiError::MountAtDevice(path)));
    }
}

#[test]
fn tool_device_exists_under_a_root_mount() {
    let mut vfs = glovebox_vfs::Vfs::new(VfsLimits::default());
    let root = vfs.add_root(Access::ReadWrite);
    vfs.write_file(root, "dev/glovebox/tools", b"false").unwrap();
    let mut config = WasiConfig::new(vfs);
    config.mounts.push(Mount::new("/", root));
    let mut guest = Guest { wasi: Wasi::new(config).unwrap(), ..Guest::new() };
    assert_eq!(guest.stat(3, DEVICE).unwrap().0, 2);
    let dev = guest.open_at(3, "dev", DIRECTORY, READ, 0).unwrap();
    assert_eq!(
        guest.stat(dev, "glovebox/tools").unwrap().0,
        4,
        "below an opened directory, the path leads to the mount's own file"
    );
}

#[test]
fn tool_device_is_always_ready() {
    let mut guest = guest();
    let fd = open(&mut guest);
    guest.host.replies.push_back(Some(b"abc".to_vec()));
    for (event_type, read, available) in [(1, 0, 1), (2, 0, 1), (1, 2, 5)] {
        guest.read(fd, read).unwrap();
        guest.put(DATA, &[0; 48]);
        guest.put(DATA + 8, &[event_type]);
        guest.put(DATA + 16, &fd.to_le_bytes());
        call!(guest, poll_oneoff(DATA, DATA + 100, 1, OUT)).unwrap();
        assert_eq!((guest.u32_at(OUT), guest.u64_at(DATA + 116)), (1, available));
    }
}
