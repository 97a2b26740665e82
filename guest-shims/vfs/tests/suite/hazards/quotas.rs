use glovebox_vfs::{Access, Follow, Vfs, VfsError, VfsLimits};

use super::{fresh, touch, with_limits};

/// Returns limits that leave exactly `data` bytes for one file's content.
fn room_for_data(data: u64) -> VfsLimits {
    let (mut vfs, _, top) = fresh();
    touch(&mut vfs, top, "f").unwrap();
    VfsLimits { bytes: vfs.bytes_used() + data, ..VfsLimits::default() }
}

#[test]
fn byte_quota_is_exact_and_recoverable() {
    let (mut vfs, root, top) = with_limits(room_for_data(8_192));
    let file = touch(&mut vfs, top, "f").unwrap();
    vfs.write_at(file, 0, &[1; 8_191]).unwrap();
    vfs.write_at(file, 0, &[2; 8_192]).unwrap();
    assert_eq!(vfs.bytes_used(), vfs.limits().bytes);
    assert_eq!(vfs.write_at(file, 1, &[3; 8_192]), Err(VfsError::NoSpace));
    assert_eq!(vfs.append(file, b"x"), Err(VfsError::NoSpace));
    assert_eq!(vfs.set_len(file, 8_193), Err(VfsError::NoSpace));
    assert_eq!(touch(&mut vfs, top, "g"), Err(VfsError::NoSpace));
    // The failed operation changed nothing.
    assert_eq!(vfs.read_file(root, "f", 9_000).unwrap(), [2; 8_192]);
    vfs.write_at(file, 100, b"overwriting needs no room").unwrap();
    vfs.rename(top, b"f", top, b"g").unwrap();
    vfs.unlink(top, b"g").unwrap();
    assert_eq!(vfs.bytes_used(), 0);
    touch(&mut vfs, top, "f").unwrap();
}

#[test]
fn small_files_are_charged_whole_chunks() {
    let (mut vfs, root, _) = with_limits(VfsLimits { bytes: 1 << 20, ..VfsLimits::default() });
    let mut count = 0_u64;
    while vfs.write_file(root, &format!("f{count}"), b"x").is_ok() {
        count += 1;
    }
    assert!((100..256).contains(&count), "{count}");
    assert!(vfs.bytes_used() <= 1 << 20);
}

#[test]
fn bytes_of_names_are_limited() {
    let (mut vfs, _, top) = with_limits(VfsLimits { bytes: 1 << 20, inodes: u64::MAX, ..VfsLimits::default() });
    let mut count = 0;
    let refused = loop {
        match touch(&mut vfs, top, &format!("{count:0>250}")) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, VfsError::NoSpace);
    assert!(count <= (1 << 20) / 250);
    // The quota also applies to symlink targets.
    let (mut vfs, _, top) = with_limits(VfsLimits { bytes: 5_000, ..VfsLimits::default() });
    vfs.symlink(&[b'x'; 4_096], top, b"a").unwrap();
    assert_eq!(vfs.symlink(&[b'x'; 4_096], top, b"b"), Err(VfsError::NoSpace));
    vfs.unlink(top, b"a").unwrap();
    vfs.symlink(&[b'x'; 4_096], top, b"b").unwrap();
}

#[test]
fn inode_quota_is_exact_and_recoverable() {
    let (mut vfs, _, top) = with_limits(VfsLimits { inodes: 4, ..VfsLimits::default() });
    touch(&mut vfs, top, "a").unwrap();
    vfs.create_dir(top, b"b").unwrap();
    vfs.symlink(b"a", top, b"c").unwrap();
    vfs.link(top, b"a", Follow::No, top, b"d").unwrap();
    assert_eq!(vfs.inodes_used(), 4);
    assert_eq!(touch(&mut vfs, top, "e"), Err(VfsError::NoSpace));
    assert_eq!(vfs.create_dir(top, b"e"), Err(VfsError::NoSpace));
    assert_eq!(vfs.symlink(b"e", top, b"e"), Err(VfsError::NoSpace));
    assert_eq!(vfs.link(top, b"a", Follow::No, top, b"e"), Err(VfsError::NoSpace));
    vfs.rename(top, b"d", top, b"e").unwrap();
    vfs.rename(top, b"e", top, b"c").unwrap();
    assert_eq!(vfs.inodes_used(), 3);
    touch(&mut vfs, top, "e").unwrap();
}

#[test]
fn removed_open_inode_counts() {
    let (mut vfs, _, top) = with_limits(VfsLimits { inodes: 1, ..VfsLimits::default() });
    let file = touch(&mut vfs, top, "a").unwrap();
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"a").unwrap();
    assert_eq!(touch(&mut vfs, top, "b"), Err(VfsError::NoSpace));
    vfs.release(file);
    touch(&mut vfs, top, "b").unwrap();
}

#[test]
fn repeated_creation_and_removal_leaks_no_quota() {
    let (mut vfs, root, top) = with_limits(VfsLimits { bytes: 40_000, inodes: 20, ..VfsLimits::default() });
    vfs.write_file(root, "held/old", b"x").unwrap();
    vfs.mark();
    let start = vfs.bytes_used();
    for n in 0..50_000 {
        let name = format!("{n}");
        touch(&mut vfs, top, &name).unwrap();
        vfs.rename(top, name.as_bytes(), top, b"held/new").unwrap();
        vfs.unlink(top, b"held/new").unwrap();
        vfs.rename(top, b"held", top, b"lost").unwrap();
        vfs.rename(top, b"lost", top, b"held").unwrap();
    }
    assert_eq!(vfs.bytes_used(), start);
    assert!(vfs.changes(root).is_empty());
    assert!(vfs.peak_bytes() < 40_000);
}

#[test]
fn removal_works_at_a_full_quota() {
    let (mut vfs, root, top) = with_limits(VfsLimits { bytes: 200_000, ..VfsLimits::default() });
    let mut count = 0;
    while touch(&mut vfs, top, &format!("{count:0>200}")).is_ok() {
        count += 1;
    }
    let plan = vfs.commit_plan(root).len();
    assert_eq!(plan, count);
    vfs.mark_committed(root, []).unwrap();
    vfs.mark();
    let full = vfs.bytes_used();
    for n in 0..count {
        let before = vfs.bytes_used();
        vfs.unlink(top, format!("{n:0>200}").as_bytes()).unwrap();
        assert!(vfs.bytes_used() < before);
    }
    assert_eq!(vfs.changes(root).deleted.len(), count);
    assert!(vfs.bytes_used() > 0 && vfs.bytes_used() < full);
    vfs.mark();
    vfs.mark_committed(root, []).unwrap();
    assert_eq!(vfs.bytes_used(), 0);
}

#[test]
fn available_bytes_limit_growth_only() {
    let (mut vfs, root, top) = fresh();
    let file = touch(&mut vfs, top, "f").unwrap();
    let used = vfs.bytes_used();
    vfs.set_available_bytes(used + 4_096);
    vfs.write_at(file, 0, &[1; 4_096]).unwrap();
    assert_eq!(vfs.append(file, b"x"), Err(VfsError::NoSpace));
    vfs.set_available_bytes(0);
    assert_eq!(touch(&mut vfs, top, "g"), Err(VfsError::NoSpace));
    vfs.write_at(file, 0, b"overwrite").unwrap();
    vfs.set_len(file, 1).unwrap();
    vfs.set_available_bytes(used + 8_192);
    vfs.write_at(file, 0, &[1; 8_192]).unwrap();
    assert_eq!(vfs.peak_bytes(), used + 8_192);
    vfs.remove(root, "f").unwrap();
    assert_eq!(vfs.bytes_used(), 0);
}

#[test]
fn a_hundred_thousand_nested_directories_stop_at_the_limit() {
    let (mut vfs, root, top) = fresh();
    let mut at = top;
    let mut depth = 0;
    for _ in 0..100_000 {
        match vfs.create_dir(at, b"d") {
            Ok(dir) => {
                at = dir;
                depth += 1;
            }
            Err(error) => assert_eq!(error, VfsError::NameTooLong),
        }
    }
    assert_eq!(depth, 256);
    touch(&mut vfs, at, "f").unwrap();
    assert_eq!(vfs.changes(root).created.len(), 1);
    assert_eq!(vfs.commit_plan(root).len(), 257);
    vfs.remove(root, "d").unwrap();
    assert_eq!(vfs.bytes_used(), 0);
}

/// Runs on a stack of 64 KiB, which recursion over the nested directories would overflow.
#[test]
fn deep_trees_are_walked_removed_and_dropped_without_recursion() {
    let work = || {
        let limits = VfsLimits {
            bytes: 1 << 30,
            inodes: u64::MAX,
            depth: usize::MAX,
            path_bytes: usize::MAX,
            ..VfsLimits::default()
        };
        let (mut vfs, root, top) = with_limits(limits);
        let mut at = top;
        for _ in 0..5_000 {
            at = vfs.create_dir(at, b"d").unwrap();
        }
        touch(&mut vfs, at, "f").unwrap();
        vfs.rename(top, b"d", top, b"e").unwrap();
        assert_eq!(vfs.changes(root).created.len(), 1);
        assert_eq!(vfs.commit_plan(root).len(), 5_001);
        let mut fork = vfs.clone();
        fork.remove(root, "e").unwrap();
        assert_eq!(fork.bytes_used(), 0);
        drop(vfs);
    };
    std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn quotas_cover_all_roots() {
    let mut vfs = Vfs::new(VfsLimits { bytes: 50_000, ..VfsLimits::default() });
    let roots = [(); 3].map(|()| vfs.add_root(Access::ReadWrite));
    vfs.write_file(roots[0], "f", &[0; 20_000]).unwrap();
    vfs.write_file(roots[1], "f", &[0; 20_000]).unwrap();
    let refused = vfs.write_file(roots[2], "f", &[0; 20_000]).unwrap_err();
    assert_eq!(refused.reason, VfsError::NoSpace);
    assert!(!vfs.exists(roots[2], "f").unwrap());
}
