use std::sync::{Arc, atomic::Ordering::Relaxed};

use glovebox_vfs::{
    Access, Follow, InodeId, RestoreError, RootId, Vfs, VfsError, VfsLimits,
    encoding::{DecodeError, Encoder},
};

use super::{saved::refused, touch, with_limits};
use crate::support::{FakeHost, HostNode};

fn mounted(host: &Arc<FakeHost>, access: Access, limits: VfsLimits) -> (Vfs, RootId, InodeId) {
    let mut vfs = Vfs::new(limits);
    let root = vfs.add_mount(host.clone(), access).unwrap();
    let dir = vfs.root_dir(root).unwrap();
    (vfs, root, dir)
}

fn sample() -> Arc<FakeHost> {
    let host = FakeHost::default();
    host.dir("d");
    host.file("d/a", b"lower a");
    host.file("d/b", b"lower b");
    host.dir("d/e");
    host.file("d/e/c", b"lower c");
    host.put("link", HostNode::Link("d/a".into()));
    Arc::new(host)
}

#[test]
fn mounts_are_read_lazily() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadOnly, VfsLimits::default());
    assert_eq!(host.lists.load(Relaxed), 0);
    assert!(vfs.lookup(top, b"d/a", Follow::Yes).is_ok());
    assert_eq!(host.lists.load(Relaxed), 2);
    assert_eq!(host.reads.load(Relaxed), 0);
    assert_eq!(vfs.read_file(root, "link", 99).unwrap(), b"lower a");
    assert_eq!(host.lists.load(Relaxed), 2);
    let names: Vec<String> = vfs.list(root, "d").unwrap().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "e"]);
    assert_eq!(host.lists.load(Relaxed), 2);
    assert_eq!((vfs.inodes_used(), vfs.changes(root).is_empty()), (0, true));
}

#[test]
fn large_host_file_costs_only_the_cache() {
    let host = Arc::new(FakeHost::default());
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n / 7 % 256) as u8).collect();
    host.file("big", &content);
    let limits = VfsLimits { bytes: 0, mount_cache_bytes: 1 << 20, ..VfsLimits::default() };
    let (mut vfs, root, _) = mounted(&host, Access::ReadOnly, limits);
    let file = vfs.file_stat(root, "big").unwrap().inode;
    let mut back = Vec::new();
    let mut buffer = [0; 8_192];
    loop {
        let read = vfs.read_at(file, back.len() as u64, &mut buffer).unwrap();
        if read == 0 {
            break;
        }
        back.extend_from_slice(&buffer[..read]);
    }
    assert!(back == content);
    assert!(vfs.peak_bytes() <= (1 << 20) + 4_096, "{}", vfs.peak_bytes());
    assert!(vfs.bytes_used() > 900_000);
    // Each byte was read once, in bounded chunks.
    assert_eq!(host.bytes_read.load(Relaxed), 20_000_000);
    assert!(host.longest_read.load(Relaxed) <= 64 << 10);
    // Cached chunks are not read again.
    let reads = host.reads.load(Relaxed);
    assert_eq!(vfs.read_at(file, 19_999_990, &mut buffer), Ok(10));
    assert_eq!(host.reads.load(Relaxed), reads);
    // The ceiling empties the cache, but files can still be read.
    vfs.set_available_bytes(10_000);
    assert!(vfs.bytes_used() <= 10_000);
    assert_eq!(vfs.read_at(file, 100, &mut buffer), Ok(8_192));
    assert_eq!(buffer[..], content[100..8_292]);
    assert!(vfs.bytes_used() <= 10_000);
}

#[test]
fn cache_shrinks_for_files() {
    let host = Arc::new(FakeHost::default());
    host.file("big", &[1; 500_000]);
    let (mut vfs, root, _) = mounted(&host, Access::ReadOnly, VfsLimits::default());
    let own = vfs.add_root(Access::ReadWrite);
    vfs.set_available_bytes(600_000);
    let file = vfs.file_stat(root, "big").unwrap().inode;
    for at in 0..500 {
        vfs.read_at(file, at * 1_000, &mut [0; 100]).unwrap();
    }
    assert!(vfs.bytes_used() > 500_000);
    vfs.write_file(own, "f", &[2; 500_000]).unwrap();
    assert!(vfs.bytes_used() <= 600_000);
    assert!(vfs.peak_bytes() <= 600_000);
    assert!(vfs.write_file(own, "g", &[2; 500_000]).is_err());
}

#[test]
fn writing_makes_a_private_copy() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, VfsLimits::default());
    let file = vfs.lookup(top, b"d/a", Follow::No).unwrap();
    assert_eq!(vfs.append(file, b" more"), Ok(12));
    assert_eq!(vfs.read_file(root, "d/a", 99).unwrap(), b"lower a more");
    assert_eq!(host.tree()["d/a"], HostNode::File(b"lower a".to_vec()));
    assert_eq!(vfs.changes(root).modified, ["d/a"]);
    let reads = host.reads.load(Relaxed);
    // Truncating a file does not read it first.
    vfs.write_file(root, "d/b", b"new").unwrap();
    assert_eq!(host.reads.load(Relaxed), reads);
    // Opening, renaming, linking or removing a file does not read it either.
    vfs.rename(top, b"d/e/c", top, b"c").unwrap();
    vfs.link(top, b"c", Follow::No, top, b"c2").unwrap();
    vfs.unlink(top, b"c").unwrap();
    assert_eq!(host.reads.load(Relaxed), reads);
    assert_eq!(vfs.read_file(root, "c2", 99).unwrap(), b"lower c");
    assert_eq!(vfs.changes(root).deleted, ["d/e/c"]);
    assert_eq!(vfs.changes(root).created, ["c2"]);
}

#[test]
fn a_file_too_large_for_the_quota_is_refused_before_it_is_read() {
    let host = Arc::new(FakeHost::default());
    host.file("big", &[1; 100_000]);
    let limits = VfsLimits { bytes: 100_000, ..VfsLimits::default() };
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, limits);
    let file = vfs.lookup(top, b"big", Follow::No).unwrap();
    assert_eq!(vfs.write_at(file, 0, b"x"), Err(VfsError::NoSpace));
    assert_eq!(host.reads.load(Relaxed), 0);
    vfs.set_len(file, 90_000).unwrap();
    vfs.write_at(file, 0, b"x").unwrap();
    assert_eq!(vfs.file_stat(root, "big").unwrap().size_bytes, 90_000);
}

#[test]
fn number_of_mount_entries_is_limited() {
    let host = Arc::new(FakeHost::default());
    host.dir("small");
    host.dir("big");
    host.file("small/a", b"");
    for n in 0..10 {
        host.file(&format!("big/{n}"), b"");
    }
    for (entries, works) in [(11, false), (12, true), (13, true)] {
        let limits = VfsLimits { mount_entries: entries, ..VfsLimits::default() };
        let (mut vfs, root, top) = mounted(&host, Access::ReadOnly, limits);
        let big = vfs.lookup(top, b"big", Follow::No).unwrap();
        let found = vfs.read_dir(big, 0, 100);
        if works {
            assert_eq!(found.unwrap().len(), 12);
        } else {
            assert_eq!(found, Err(VfsError::MountTooLarge));
            assert_eq!(vfs.read_file(root, "small/a", 9).unwrap(), b"");
        }
    }
    let (mut vfs, _, top) = mounted(&host, Access::ReadOnly, VfsLimits::default());
    vfs.set_available_bytes(2_000);
    assert_eq!(vfs.lookup(top, b"big/1", Follow::No), Err(VfsError::MountTooLarge));
    assert!(vfs.bytes_used() <= 2_000);
    vfs.set_available_bytes(u64::MAX);
    assert!(vfs.lookup(top, b"big/1", Follow::No).is_ok());
}

/// Returns a directory with ten files, `d/0` to `d/9`, and a file system with a limit on entries. `d` itself uses one
/// entry.
fn crowded(mount_entries: u64) -> (Arc<FakeHost>, Vfs, RootId, InodeId) {
    let host = Arc::new(FakeHost::default());
    host.dir("d");
    for n in 0..10 {
        host.file(&format!("d/{n}"), format!("{n}").as_bytes());
    }
    let limits = VfsLimits { mount_entries, ..VfsLimits::default() };
    let (vfs, root, top) = mounted(&host, Access::ReadWrite, limits);
    (host, vfs, root, top)
}

#[test]
fn names_in_an_unlistable_directory_are_looked_up() {
    for (mount_entries, lists) in [(10, false), (11, true), (12, true)] {
        let (host, mut vfs, root, top) = crowded(mount_entries);
        for n in 0..10 {
            let path = format!("d/{n}");
            assert_eq!(vfs.read_file(root, &path, 9).unwrap(), format!("{n}").as_bytes(), "{mount_entries}");
        }
        assert_eq!(vfs.lookup(top, b"d/none", Follow::No), Err(VfsError::NotFound));
        let dir = vfs.lookup(top, b"d", Follow::No).unwrap();
        // The directory is listed once, regardless of the result.
        assert_eq!(host.lists.load(Relaxed), 2, "the top and `d`");
        assert_eq!(vfs.read_dir(dir, 0, 100).is_ok(), lists);
        // Every lookup returns the same inode.
        let five = vfs.lookup(top, b"d/5", Follow::No).unwrap();
        assert_eq!(vfs.lookup(top, b"d/5", Follow::No).unwrap(), five);
    }
}

#[test]
fn lookups_in_unlistable_directories_are_limited() {
    // `d` itself is charged as one entry, so one name fewer than twice the limit can be looked up.
    for (mount_entries, max) in [(1, 1), (2, 3), (5, 9), (6, 10)] {
        let (_, mut vfs, _, top) = crowded(mount_entries);
        for n in 0..10 {
            let found = vfs.lookup(top, format!("d/{n}").as_bytes(), Follow::No);
            if n < max {
                assert!(found.is_ok(), "{mount_entries}: {n}");
            } else {
                assert_eq!(found, Err(VfsError::MountTooLarge), "{mount_entries}: {n}");
            }
        }
        // Known names remain known, and removing one frees an entry.
        assert!(vfs.lookup(top, b"d/0", Follow::No).is_ok());
        if max < 10 {
            vfs.unlink(top, b"d/0").unwrap();
            assert!(vfs.lookup(top, b"d/9", Follow::No).is_ok());
        }
    }
}

#[test]
fn changes_in_an_unlistable_directory_are_committed() {
    let (host, mut vfs, root, top) = crowded(9);
    vfs.write_file(root, "d/1", b"changed").unwrap();
    vfs.write_file(root, "d/new", b"made").unwrap();
    vfs.unlink(top, b"d/2").unwrap();
    assert_eq!(
        vfs.lookup(top, b"d/2", Follow::No),
        Err(VfsError::NotFound),
        "the guest removed the name, although the source still has it"
    );
    vfs.rename(top, b"d/3", top, b"moved").unwrap();
    assert_eq!(vfs.remove_dir(top, b"d"), Err(VfsError::MountTooLarge));
    assert_eq!(vfs.rename(top, b"d", top, b"elsewhere"), Err(VfsError::MountTooLarge));

    // A restored file system has the same entries.
    let saved = vfs.save(&Default::default());
    let limits = VfsLimits { mount_entries: 9, ..VfsLimits::default() };
    let (mut again, ..) = mounted(&host, Access::ReadWrite, limits);
    again.restore(&saved, &[]).unwrap();
    for vfs in [&mut vfs, &mut again] {
        let top = vfs.root_dir(root).unwrap();
        assert_eq!(vfs.read_file(root, "d/1", 99).unwrap(), b"changed");
        assert_eq!(vfs.read_file(root, "d/5", 99).unwrap(), b"5");
        assert_eq!(vfs.read_file(root, "moved", 99).unwrap(), b"3");
        assert_eq!(vfs.lookup(top, b"d/2", Follow::No), Err(VfsError::NotFound));
        assert_eq!(vfs.lookup(top, b"d/3", Follow::No), Err(VfsError::NotFound));
    }
    let plan = vfs.commit_plan(root);
    assert_eq!(plan, again.commit_plan(root));
    let written = host.apply(&mut vfs, &plan);
    vfs.mark_committed(root, written).unwrap();
    let names: Vec<String> = host.tree().into_keys().collect();
    assert_eq!(names, ["d", "d/0", "d/1", "d/4", "d/5", "d/6", "d/7", "d/8", "d/9", "d/new", "moved"]);
    assert_eq!(vfs.lookup(top, b"d/2", Follow::No), Err(VfsError::NotFound));
    assert!(vfs.commit_plan(root).is_empty());
}

#[test]
fn repeated_listing_of_an_unlistable_directory_costs_lookups() {
    let (_, mut vfs, _, top) = crowded(5);
    let dir = vfs.lookup(top, b"d", Follow::No).unwrap();
    vfs.take_work();
    // The root's entry leaves room for four entries, and the source returns one entry more.
    for work in [5, 500, 500] {
        assert_eq!(vfs.read_dir(dir, 0, 100), Err(VfsError::MountTooLarge));
        assert_eq!(vfs.take_work(), work);
    }
}

#[test]
fn failing_lookups_do_not_make_names_absent() {
    let (host, mut vfs, _, top) = crowded(5);
    vfs.lookup(top, b"d/1", Follow::No).unwrap();
    host.broken.store(1, Relaxed);
    assert_eq!(vfs.lookup(top, b"d/2", Follow::No), Err(VfsError::Io));
    assert!(vfs.lookup(top, b"d/1", Follow::No).is_ok());
    host.broken.store(0, Relaxed);
    assert!(vfs.lookup(top, b"d/2", Follow::No).is_ok());
    let before = vfs.take_work();
    vfs.lookup(top, b"d/none", Follow::No).unwrap_err();
    assert!(before > 0 && vfs.take_work() >= 100, "lookups in the source are charged");
}

#[test]
fn failing_source_is_an_io_error_and_retried() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, VfsLimits::default());
    host.broken.store(1, Relaxed);
    assert_eq!(vfs.lookup(top, b"d", Follow::No), Err(VfsError::Io));
    let error = vfs.take_source_error().unwrap();
    assert_eq!(error.to_string(), "broken on purpose");
    assert!(vfs.take_source_error().is_none());
    host.broken.store(0, Relaxed);
    let file = vfs.lookup(top, b"d/a", Follow::No).unwrap();
    host.broken.store(1, Relaxed);
    assert_eq!(vfs.read_at(file, 0, &mut [0; 4]), Err(VfsError::Io));
    assert_eq!(vfs.write_at(file, 0, b"x"), Err(VfsError::Io));
    assert!(vfs.changes(root).is_empty());
    host.broken.store(0, Relaxed);
    assert_eq!(vfs.write_at(file, 0, b"x"), Ok(1));
}

#[test]
fn read_of_a_shrunken_host_file_fails() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, VfsLimits::default());
    let file = vfs.lookup(top, b"d/a", Follow::No).unwrap();
    host.file("d/a", b"low");
    assert!(vfs.read_file(root, "d/a", 99).is_err());
    let error = vfs.take_source_error().unwrap().to_string();
    assert!(error.contains("`d/a` ends at byte 3"), "{error}");
    assert_eq!(vfs.append(file, b"x"), Err(VfsError::Io));
}

#[test]
fn invalid_and_duplicate_host_names_are_hidden() {
    struct InvalidNames;
    impl glovebox_vfs::MountSource for InvalidNames {
        fn list(&self, _: &str, _: usize) -> Result<Vec<glovebox_vfs::SourceEntry>, glovebox_vfs::SourceError> {
            let stat = self.stat("x")?.unwrap();
            let names = ["", ".", "..", "a/b", "/", "nul\0", "ok", "ok", &"n".repeat(256)];
            Ok(names.map(|name| glovebox_vfs::SourceEntry { name: name.to_owned(), stat }).into())
        }
        fn stat(&self, path: &str) -> Result<Option<glovebox_vfs::SourceStat>, glovebox_vfs::SourceError> {
            Ok(Some(glovebox_vfs::SourceStat {
                kind: if path.is_empty() { glovebox_vfs::FileKind::Directory } else { glovebox_vfs::FileKind::File },
                size_bytes: 1,
                modified_ns: 0,
                changed_ns: 0,
                identity: glovebox_vfs::FileIdentity::default(),
            }))
        }
        fn read(&self, _: &str, _: u64, _: &mut [u8]) -> Result<usize, glovebox_vfs::SourceError> {
            Ok(usize::MAX)
        }
        fn read_link(&self, _: &str) -> Result<String, glovebox_vfs::SourceError> {
            Err(glovebox_vfs::SourceError::new("none"))
        }
    }
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = vfs.add_mount(Arc::new(InvalidNames), Access::ReadOnly).unwrap();
    let listed = vfs.list(root, "").unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(&*listed[0].name, "ok");
    // The source claims to have read more bytes than fit into the buffer.
    assert!(vfs.read_file(root, "ok", 9).is_err());
}

#[test]
fn files_of_a_renamed_mount_directory_stay_readable() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, VfsLimits::default());
    vfs.rename(top, b"d", top, b"z").unwrap();
    assert_eq!(vfs.read_file(root, "z/e/c", 99).unwrap(), b"lower c");
    assert_eq!(vfs.changes(root).deleted, ["d/a", "d/b", "d/e/c"]);
    assert_eq!(vfs.changes(root).created, ["z/a", "z/b", "z/e/c"]);
    touch(&mut vfs, top, "z/e/new").unwrap();
}

#[test]
fn a_removed_mounted_file_is_readable_while_open() {
    let host = sample();
    let (mut vfs, root, top) = mounted(&host, Access::ReadWrite, VfsLimits::default());
    let file = vfs.lookup(top, b"d/a", Follow::No).unwrap();
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"d/a").unwrap();
    let mut buffer = [0; 7];
    assert_eq!(vfs.read_at(file, 0, &mut buffer), Ok(7));
    assert_eq!(&buffer, b"lower a");
    // After the commit has removed the file from the host, reading it fails.
    let plan = vfs.commit_plan(root);
    let written = host.apply(&mut vfs, &plan);
    vfs.mark_committed(root, written).unwrap();
    host.file("d/a", b"another's");
    assert_eq!(vfs.read_at(file, 0, &mut buffer), Err(VfsError::Io));
    assert_eq!(vfs.write_at(file, 0, b"x"), Err(VfsError::Io));
    vfs.release(file);
}

#[test]
fn only_directories_are_mounted() {
    let host = sample();
    host.broken.store(1, Relaxed);
    let mut vfs = Vfs::new(VfsLimits::default());
    assert_eq!(vfs.add_mount(host, Access::ReadOnly), Err(VfsError::Io));
}

/// The name had no previous target.
const MADE: u8 = 0;
/// The name's previous target was a file.
const TAKEN: u8 = 1;

/// Returns the journal of a root. The journal declares `u64::MAX` names, but ends after `names`.
fn journal(names: &[u8]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.byte(2);
    to.fixed(0);
    to.number(50);
    to.number(1);
    to.byte(0);
    to.number(1);
    to.number(u64::MAX);
    to.number(1);
    to.number(u64::MAX);
    for (number, was) in names.iter().enumerate() {
        to.text(&format!("{number:04}"));
        to.byte(*was);
        if *was != MADE {
            to.number(9);
            to.byte(0);
        }
    }
    to.finish()
}

fn why(names: &[u8], bytes: u64, available_bytes: u64) -> RestoreError {
    let (mut vfs, ..) = with_limits(VfsLimits { bytes, ..VfsLimits::default() });
    vfs.set_available_bytes(available_bytes);
    refused(&mut vfs, &journal(names), &[])
}

#[test]
fn journal_names_are_limited_while_reading() {
    // If the decoder accepts all names, it then fails at the end of the input.
    let read = RestoreError::Damaged(DecodeError("it is truncated"));
    // Each created name is charged its length and 256 bytes, each removed name its length and 160 bytes.
    for (was, charge) in [(MADE, 260), (TAKEN, 164)] {
        let max = 100 * charge;
        assert_eq!(why(&[was; 99], u64::MAX, max), read);
        assert_eq!(why(&[was; 100], u64::MAX, max), read);
        assert_eq!(why(&[was; 101], u64::MAX, max), RestoreError::Limit("memory"));
        // Deletions must always be possible, so they have no quota.
        let over = if was == MADE { RestoreError::Limit("bytes") } else { read.clone() };
        assert_eq!(why(&[was; 100], max, u64::MAX), read);
        assert_eq!(why(&[was; 101], max, u64::MAX), over);
    }
    assert_eq!(why(&[TAKEN, MADE], u64::MAX, 424), read, "removed and created names share the memory limit");
    assert_eq!(why(&[TAKEN, MADE], u64::MAX, 423), RestoreError::Limit("memory"));
}
