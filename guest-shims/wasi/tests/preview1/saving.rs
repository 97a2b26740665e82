//! Tests of saving and restoring a state, and of rejected bytes.

use glovebox_vfs::{
    Access, RestoreError as VfsRestoreError, Vfs, VfsLimits,
    encoding::{DecodeError, Encoder},
};
use glovebox_wasi::{Clock, Entropy, Errno, Mount, RestoreError, Wasi, WasiConfig, WasiLimits};

use crate::{
    hostile::{FUNCTIONS, MEMORY, Random, hostile_guest, refill, scribble},
    support::{ALL_RIGHTS, APP, APPEND, CREAT, DATA, DIRECTORY, FakeHost, Guest, OUT, PATH, READ, STAT, call},
};

const ROOT: u32 = 4;

fn config(vfs: Vfs, paths: &[&str]) -> WasiConfig {
    let mut config = WasiConfig::new(vfs);
    config.root_preopen = true;
    for path in paths {
        let root = config.vfs.add_root(Access::ReadWrite);
        config.mounts.push(Mount::new(*path, root));
    }
    config
}

fn guest_with(change: impl FnOnce(&mut WasiConfig)) -> Guest {
    let mut config = config(Vfs::new(VfsLimits::default()), &["/app", "/data"]);
    // The mount is visible only through `/`, as in a guest that was prepared before the mount was added.
    let data = config.mounts.pop().unwrap();
    change(&mut config);
    let mut wasi = Wasi::new(config).unwrap();
    wasi.add_mount(data).unwrap();
    let app = wasi.mount_root("/app").unwrap();
    Guest { wasi, host: FakeHost::new(1 << 20), app }
}

fn guest() -> Guest {
    guest_with(|_| ())
}

fn resumed(from: &Guest) -> Guest {
    let mut to = guest();
    to.wasi.restore(&from.wasi.save()).unwrap();
    assert_eq!(to.wasi.save(), from.wasi.save());
    to
}

fn refused(saved: &[u8], to: &mut Guest) -> RestoreError {
    let before = to.wasi.save();
    let error = to.wasi.restore(saved).unwrap_err();
    assert_eq!(to.wasi.save(), before, "a rejected state changes nothing");
    error
}

#[test]
fn restore_keeps_open_files_and_positions() {
    let mut guest = guest();
    guest.make_dir("dir").unwrap();
    guest.file("dir/file", b"0123456789");
    let reader = guest.open_to_read("dir/file").unwrap();
    guest.read(reader, 4).unwrap();
    let log = guest.open_at(APP, "log", CREAT, ALL_RIGHTS, APPEND).unwrap();
    guest.write(log, b"one").unwrap();
    let dir = guest.open_to_read("dir").unwrap();
    let device = guest.open_at(ROOT, "dev/glovebox/tools", 0, ALL_RIGHTS, 0).unwrap();
    let nameless = guest.open("gone", CREAT).unwrap();
    guest.write(nameless, b"still here").unwrap();
    let len = guest.path("gone");
    call!(guest, path_unlink_file(APP, PATH, len)).unwrap();
    call!(guest, fd_close(1)).unwrap();
    let moved = guest.open("moved", CREAT).unwrap();
    call!(guest, fd_renumber(moved, 2)).unwrap();
    let mut inodes = Vec::new();
    for path in ["dir", "dir/file", "log"] {
        inodes.push(guest.stat(APP, path).unwrap());
    }

    let mut guest = resumed(&guest);
    assert_eq!(guest.read(reader, 100).unwrap(), b"456789");
    assert_eq!(guest.write(reader, b"x"), Err(Errno::Badf), "restoring keeps the rights");
    guest.write(log, b"two").unwrap();
    assert_eq!(guest.content("log"), b"onetwo", "restoring keeps the flags");
    assert_eq!(guest.stat(dir, "file").unwrap(), inodes[1]);
    assert_eq!(guest.stat(APP, "dir").unwrap(), inodes[0], "inodes keep their numbers");
    assert_eq!(guest.write(device, b"message"), Ok(7));
    assert_eq!(guest.host.messages, [b"message"]);
    call!(guest, fd_seek(nameless, 0, 0, OUT)).unwrap();
    assert_eq!(guest.read(nameless, 100).unwrap(), b"still here");
    assert_eq!(guest.write(1, b"x"), Err(Errno::Badf));
    assert_eq!(guest.write(2, b"into a file"), Ok(11));
    assert_eq!(guest.content("moved"), b"into a file");
    let used = guest.wasi.vfs().inodes_used();
    call!(guest, fd_close(nameless)).unwrap();
    assert_eq!(guest.wasi.vfs().inodes_used(), used - 1, "the descriptor held the last reference");
    guest.wasi.begin_execution();
    assert_eq!(guest.write(1, b"out"), Ok(3));
}

#[test]
fn restore_continues_input_clock_and_generator() {
    for clock in [Clock::Host, Clock::Fixed { realtime_ns: 1_000, monotonic_ns: 50 }] {
        let mut before = guest_with(|config| {
            config.clock = clock;
            config.entropy = Entropy::seeded(7);
            config.stdin = b"0123456789".to_vec();
        });
        before.read(0, 4).unwrap();
        before.put(DATA, &[0; 48]);
        before.put(DATA + 16, &[1]);
        before.put(DATA + 24, &300_u64.to_le_bytes());
        call!(before, poll_oneoff(DATA, DATA + 100, 1, OUT)).unwrap();
        call!(before, random_get(DATA, 13)).unwrap();
        before.wasi.settle_clock(&mut before.host);

        let mut after = guest_with(|config| {
            config.clock = clock;
            config.entropy = Entropy::seeded(7);
        });
        after.wasi.restore(&before.wasi.save()).unwrap();
        assert_eq!(after.wasi.save(), before.wasi.save());
        assert_eq!(after.wasi.stdin_position(), 4);
        assert_eq!(after.read(0, 100).unwrap(), b"456789");
        assert_eq!(after.wasi.stdin_position(), 10);
        let shown = [&mut before, &mut after].map(|guest| {
            guest.host.monotonic_ns = 0;
            let now = (guest.wasi.monotonic_ns(&mut guest.host), guest.wasi.realtime_ns(&mut guest.host));
            call!(*guest, random_get(DATA, 40)).unwrap();
            (now, guest.get(DATA, 40))
        });
        if clock == Clock::Host {
            assert_eq!(shown[0].0.0, shown[1].0.0, "the monotonic clock does not go back");
        } else {
            assert_eq!(shown[0].0, shown[1].0);
        }
        assert_eq!(shown[0].1, shown[1].1, "the generator continues at its position");
    }
}

#[test]
fn monotonic_clock_never_decreases_after_restore() {
    for from in [Clock::Host, Clock::Fixed { realtime_ns: 0, monotonic_ns: 9_000 }] {
        for to in [Clock::Host, Clock::Fixed { realtime_ns: 0, monotonic_ns: 3 }] {
            let mut before = guest_with(|config| config.clock = from);
            before.host.monotonic_ns = 9_000;
            before.wasi.settle_clock(&mut before.host);
            let mut after = guest_with(|config| config.clock = to);
            after.wasi.restore(&before.wasi.save()).unwrap();
            after.host.monotonic_ns = 0;
            assert_eq!(after.wasi.monotonic_ns(&mut after.host), 9_000, "{from:?} {to:?}");
        }
    }
}

#[test]
fn execution_and_embedder_state_is_not_saved() {
    let mut guest = guest();
    let bare = guest.wasi.save();
    guest.write(1, b"output").unwrap();
    guest.wasi.set_args(["arg".to_owned()]).unwrap();
    guest.wasi.set_env([("KEY".to_owned(), "value".to_owned())]).unwrap();
    guest.wasi.set_limits(WasiLimits { stdout_bytes: 1, ..WasiLimits::default() });
    guest.wasi.set_linear_memory_bytes(1 << 20);
    guest.open_at(ROOT, "etc", 0, READ, 0).unwrap_err();
    assert_eq!(guest.wasi.save(), bare);
    guest.wasi.restore(&bare).unwrap();
    assert_eq!(guest.wasi.output(glovebox_wasi::Stream::Stdout), b"output");
}

#[test]
fn restore_names_mismatched_mounts_and_preopens() {
    let saved = guest().wasi.save();
    let make = |paths: &[&str], preopened: usize| {
        let mut config = config(Vfs::new(VfsLimits::default()), paths);
        let later = config.mounts.split_off(preopened);
        let mut wasi = Wasi::new(config).unwrap();
        later.into_iter().for_each(|mount| wasi.add_mount(mount).unwrap());
        Guest { wasi, ..guest() }
    };
    for paths in [&["/app"][..], &["/data", "/app"], &["/app", "/data", "/more"], &["/app", "/other"]] {
        let error = refused(&saved, &mut make(paths, 1));
        assert!(matches!(error, RestoreError::OtherMounts { .. }), "{error}");
        assert!(error.to_string().contains("\"/app\", \"/data\""), "{error}");
    }
    // The mounts are at the same paths, but another root was created before their roots.
    let mut vfs = Vfs::new(VfsLimits::default());
    vfs.add_root(Access::ReadOnly);
    let mut config = config(vfs, &["/app", "/data"]);
    let later = config.mounts.split_off(1);
    let mut wasi = Wasi::new(config).unwrap();
    later.into_iter().for_each(|mount| wasi.add_mount(mount).unwrap());
    let error = refused(&saved, &mut Guest { wasi, ..guest() });
    assert_eq!(error, RestoreError::MountNowOnHost("\"/app\"".into()), "{error}");
    assert_eq!(refused(&saved, &mut make(&["/app", "/data"], 2)), RestoreError::OtherPreopens);
    assert_eq!(refused(&saved, &mut make(&["/app", "/data"], 0)), RestoreError::OtherPreopens);
    assert!(make(&["/app", "/data"], 1).wasi.restore(&saved).is_ok());
}

#[test]
fn unknown_format_version_is_rejected() {
    let mut saved = guest().wasi.save();
    saved[0] = 9;
    assert_eq!(refused(&saved, &mut guest()), RestoreError::Version(9));
}

#[test]
fn open_file_limit_is_exact_on_restore() {
    let mut saved = guest();
    for _ in 0..5 {
        saved.open("file", CREAT).unwrap();
    }
    let saved = saved.wasi.save();
    // In addition to the three streams, there are two preopens and five files.
    for (open_files, fits) in [(6, false), (7, true), (8, true)] {
        let mut guest = guest_with(|config| config.limits.open_files = open_files);
        if fits {
            guest.wasi.restore(&saved).unwrap();
        } else {
            assert_eq!(refused(&saved, &mut guest), RestoreError::OpenFiles(10));
        }
    }
}

#[test]
fn common_memory_limit_is_exact_on_restore() {
    let mut saved = guest_with(|config| config.stdin = vec![1; 10_000]);
    saved.file("file", &[1; 10_000]);
    let needed = saved.wasi.vfs().bytes_used() + 10_000;
    let saved = saved.wasi.save();
    for (memory_bytes, fits) in [(needed - 1, false), (needed, true), (needed + 1, true)] {
        let mut guest = guest_with(|config| config.limits.memory_bytes = memory_bytes + (1 << 20));
        guest.wasi.set_linear_memory_bytes(1 << 20);
        if fits {
            guest.wasi.restore(&saved).unwrap();
        } else {
            let limit = VfsRestoreError::Limit("memory");
            assert_eq!(refused(&saved, &mut guest), RestoreError::FileSystem(limit));
        }
    }
    let mut guest = guest_with(|config| config.limits.memory_bytes = 10_000);
    assert_eq!(refused(&saved, &mut guest), RestoreError::Memory);
}

#[test]
fn file_open_for_writing_needs_a_writable_mount() {
    let mut saved = guest();
    let fd = saved.open_at(ROOT, "data/file", CREAT, ALL_RIGHTS, 0).unwrap();
    let writing = saved.wasi.save();
    call!(saved, fd_close(fd)).unwrap();
    saved.open_at(ROOT, "data/file", 0, READ, 0).unwrap();
    let reading = saved.wasi.save();
    let mut guest = guest();
    let root = guest.wasi.mount_root("/data").unwrap();
    guest.wasi.vfs_mut().set_access(root, Access::ReadOnly);
    assert_eq!(refused(&writing, &mut guest), RestoreError::ReadOnly("/data".to_owned()));
    guest.wasi.restore(&reading).unwrap();
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Badf));
}

#[test]
fn rollback_keeps_files_that_still_exist() {
    let mut guest = guest();
    guest.file("stays", b"stays");
    let stays = guest.open("stays", 0).unwrap();
    let goes = guest.open("goes", CREAT).unwrap();
    let dir = guest.open_at(APP, ".", DIRECTORY, READ, 0).unwrap();
    let checkpoint = guest.wasi.clone();

    call!(guest, fd_close(goes)).unwrap();
    let len = guest.path("goes");
    call!(guest, path_unlink_file(APP, PATH, len)).unwrap();
    guest.file("new", b"new");
    let nameless = guest.open("nameless", CREAT).unwrap();
    let len = guest.path("nameless");
    call!(guest, path_unlink_file(APP, PATH, len)).unwrap();
    guest.write(stays, b"STAYS-longer").unwrap();
    // A second guest has a file open. The file loses its name, so only the second guest's reference keeps it alive.
    let others = guest.open("of-another", CREAT).unwrap();
    let number = {
        call!(guest, fd_filestat_get(others, STAT)).unwrap();
        guest.u64_at(STAT + 8)
    };
    let inode = guest.wasi.vfs().inode_numbered(number).unwrap();
    guest.wasi.vfs_mut().retain(inode).unwrap();
    let len = guest.path("of-another");
    call!(guest, path_unlink_file(APP, PATH, len)).unwrap();

    let used = guest.wasi.vfs().inodes_used();
    let workspace = guest.wasi.unbind();
    assert_eq!(workspace.inodes_used(), used - 1, "`nameless` was freed, and the other guest's file was not");
    assert_eq!(guest.read(stays, 1), Err(Errno::Badf));
    let mut guest = Guest { wasi: checkpoint, ..guest };
    guest.wasi.rebind(workspace);
    assert_eq!(guest.read(goes, 1), Err(Errno::Badf), "a descriptor whose file does not exist is closed");
    assert_eq!(guest.read(nameless, 1), Err(Errno::Badf));
    assert_eq!(guest.read(stays, 100).unwrap(), b"STAYS-longer");
    assert_eq!(guest.stat(dir, "new").unwrap().2, 3, "the guest sees the newer files");
    assert!(guest.wasi.vfs().inode_numbered(number).is_some());
    let len = guest.path("stays");
    call!(guest, path_unlink_file(APP, PATH, len)).unwrap();
    assert_eq!(guest.read(stays, 100).unwrap(), b"", "the reference keeps the file alive");
    let used = guest.wasi.vfs().inodes_used();
    call!(guest, fd_close(stays)).unwrap();
    assert_eq!(guest.wasi.vfs().inodes_used(), used - 1, "closing the descriptor frees the file");
    assert_eq!(guest.open("new", 0), Ok(stays), "the number of a closed descriptor is reused");
}

/// Makes random calls and returns their results.
fn run(guest: &mut Guest, random: &mut Random, count: u32) -> Vec<String> {
    let mut answers = Vec::new();
    for round in 0..count {
        if round % 200 == 0 {
            scribble(&mut guest.host, random);
        }
        if round % 50 == 0 {
            refill(guest);
        }
        let index = usize::try_from(random.below(u64::try_from(FUNCTIONS.len()).unwrap())).unwrap();
        let (name, function) = FUNCTIONS[index];
        answers.push(format!("{name}: {:?}", function(guest, random)));
        let held = guest.wasi.host_bytes() + u64::from(MEMORY);
        assert!(held <= 2_000_000, "{name}: {held} bytes");
    }
    answers
}

fn fork_host(guest: &Guest) -> Guest {
    let mut fork = hostile_guest();
    fork.host.memory.clone_from(&guest.host.memory);
    fork.host.replies.clone_from(&guest.host.replies);
    fork
}

#[test]
fn guest_cannot_observe_save_and_restore() {
    for seed in 1..=30_u64 {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut guest = hostile_guest();
        for _ in 0..4 {
            let _ = run(&mut guest, &mut random, 700);
            guest.wasi.begin_execution();
            guest.wasi.vfs_mut().mark();
            let mut resumed = fork_host(&guest);
            let saved = guest.wasi.save();
            resumed.wasi.restore(&saved).unwrap();
            assert_eq!(resumed.wasi.save(), saved);
            assert_eq!(resumed.wasi.host_bytes(), guest.wasi.host_bytes() - guest.wasi.stdin_position());
            let state = random.0;
            let expected = run(&mut guest, &mut random, 700);
            assert_eq!(run(&mut resumed, &mut Random(state), 700), expected);
            assert!(resumed.host.memory == guest.host.memory);
            assert!(guest.host.messages.ends_with(&resumed.host.messages));
        }
    }
}

#[test]
fn forged_state_is_an_error_or_sound() {
    let (mut accepted, mut tried) = (0, 0);
    for seed in 1..=20_u64 {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut guest = hostile_guest();
        let _ = run(&mut guest, &mut random, 600);
        let saved = guest.wasi.save();
        for len in (0..saved.len()).filter(|len| *len < 300 || random.below(40) == 0) {
            assert!(hostile_guest().wasi.restore(&saved[..len]).is_err(), "cut at {len}");
        }
        for _ in 0..400 {
            let mut bytes = saved.clone();
            for _ in 0..=random.below(3) {
                let at = usize::try_from(random.below(u64::try_from(bytes.len()).unwrap())).unwrap();
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = random.pick(&[0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF]),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.pick(&[0, 1, 5, 0xFF])),
                }
            }
            tried += 1;
            let mut other = fork_host(&guest);
            if other.wasi.restore(&bytes).is_err() {
                continue;
            }
            accepted += 1;
            // Accepted state does not change when it is saved again, and a guest can continue from it.
            let again = other.wasi.save();
            let mut third = fork_host(&guest);
            third.wasi.restore(&again).unwrap();
            assert_eq!(third.wasi.save(), again);
            assert_eq!(third.wasi.vfs().bytes_used(), other.wasi.vfs().bytes_used());
            let _ = run(&mut other, &mut random, 60);
        }
    }
    println!("{accepted} of {tried} accepted");
    assert!(
        accepted * 10 > tried,
        "most mutations change only content, so many must be accepted: {accepted} of {tried}"
    );
}

/// Returns a truncated saved state, which claims to have `count` mounts but contains only `paths`.
fn mounts(count: u64, paths: &[String]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.byte(1);
    to.number(count);
    for path in paths {
        to.text(path);
        to.number(0);
    }
    to.finish()
}

#[test]
fn mismatched_mounts_are_read_only_as_far_as_shown() {
    let restore = |saved: &[u8]| hostile_guest().wasi.restore(saved).unwrap_err();
    let damaged = RestoreError::Damaged(DecodeError("it is truncated"));
    let paths: Vec<String> = (0..8).map(|number| format!("/{number}")).collect();
    let quoted: Vec<String> = paths.iter().map(|path| format!("{path:?}")).collect();
    let shown = |saved: &[u8]| match restore(saved) {
        RestoreError::OtherMounts { saved, .. } => saved,
        other => panic!("{other}"),
    };
    let present = u64::try_from(hostile_guest().wasi.mounts().len()).unwrap();
    assert!(present < 7, "the guest has few mounts");
    assert_eq!(restore(&mounts(7, &paths[..6])), damaged);
    assert_eq!(shown(&mounts(7, &paths[..7])), quoted[..7].join(", "));
    assert_eq!(shown(&mounts(8, &paths)), quoted.join(", "));
    for count in [9, 44_000_000, u64::MAX] {
        assert_eq!(restore(&mounts(count, &paths[..7])), damaged, "{count}");
        assert_eq!(
            shown(&mounts(count, &paths)),
            format!("{}, …", quoted.join(", ")),
            "the ninth path is not read: {count}"
        );
    }
    // If the number of mounts is right, all mounts are read, and nothing after the mounts.
    assert_eq!(restore(&mounts(present, &[])), damaged);
    assert!(!shown(&mounts(present, &paths[..usize::try_from(present).unwrap()])).contains('…'));
}

#[test]
fn mismatched_mount_paths_are_truncated_in_the_error() {
    // The escape sequence of this character has five characters.
    for (length, characters) in [(63, 63), (64, 64), (65, 64), (1 << 20, 64)] {
        let path = "\u{1}".repeat(length);
        let RestoreError::OtherMounts { saved, .. } =
            hostile_guest().wasi.restore(&mounts(8, &vec![path; 8])).unwrap_err()
        else {
            panic!("the mounts are others");
        };
        assert_eq!(saved.matches(r"\u{1}").count(), 8 * characters, "{length}");
        assert_eq!(saved.len(), 8 * (5 * characters + 2) + 7 * 2, "{length}");
    }
}
