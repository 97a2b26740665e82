use std::collections::BTreeSet;

use glovebox_vfs::{Access, FileKind, InodeId, Vfs, VfsError, VfsLimits};

use super::{fresh, touch, with_limits};

#[test]
fn gaps_and_truncated_ranges_read_as_zeros() {
    let (mut vfs, root, top) = fresh();
    let file = touch(&mut vfs, top, "f").unwrap();
    vfs.write_at(file, 10_000, b"end").unwrap();
    let data = vfs.read_file(root, "f", 1 << 20).unwrap();
    assert_eq!(data.len(), 10_003);
    assert!(data[..10_000].iter().all(|&byte| byte == 0));
    vfs.write_at(file, 0, &[7; 10_003]).unwrap();
    vfs.set_len(file, 5).unwrap();
    vfs.set_len(file, 10).unwrap();
    assert_eq!(vfs.read_file(root, "f", 99).unwrap(), b"\x07\x07\x07\x07\x07\0\0\0\0\0");
    assert_eq!(vfs.append(file, b"ab"), Ok(12));
    vfs.allocate(file, 4, 2).unwrap();
    assert_eq!(vfs.stat(file).unwrap().size_bytes, 12);
    vfs.allocate(file, 10, 5).unwrap();
    assert_eq!(vfs.stat(file).unwrap().size_bytes, 15);
    assert_eq!(vfs.allocate(file, 0, 0), Err(VfsError::Invalid));
}

#[test]
fn huge_offsets_are_rejected_without_changes() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"data").unwrap();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    let mut buffer = [1; 4];
    for offset in [4, 5, 1 << 40, u64::MAX - 3, u64::MAX] {
        assert_eq!(vfs.read_at(file, offset, &mut buffer), Ok(0));
    }
    for offset in [u64::MAX, u64::MAX - 3, 1 << 63] {
        assert_eq!(vfs.write_at(file, offset, b"12345"), Err(VfsError::FileTooBig));
        assert_eq!(vfs.allocate(file, offset, 5), Err(VfsError::FileTooBig));
        assert_eq!(vfs.set_len(file, offset), Err(VfsError::FileTooBig));
    }
    assert_eq!(vfs.write_at(file, 1 << 62, b"x"), Err(VfsError::NoSpace));
    assert_eq!(vfs.write_at(file, u64::MAX, b""), Ok(0));
    assert_eq!(vfs.read_file(root, "f", 9).unwrap(), b"data");
    assert_eq!(vfs.read_at(top, 0, &mut buffer), Err(VfsError::IsADirectory));
    assert_eq!(vfs.write_at(top, 0, b"x"), Err(VfsError::IsADirectory));
}

#[test]
fn terabyte_of_zeros_is_rejected() {
    let (mut vfs, _, top) = fresh();
    let file = touch(&mut vfs, top, "f").unwrap();
    let used = vfs.bytes_used();
    assert_eq!(vfs.set_len(file, 1 << 40), Err(VfsError::NoSpace));
    assert_eq!(vfs.allocate(file, 0, 1 << 40), Err(VfsError::NoSpace));
    assert_eq!(vfs.write_at(file, 1 << 40, b"x"), Err(VfsError::NoSpace));
    assert_eq!((vfs.bytes_used(), vfs.peak_bytes()), (used, used));
    vfs.write_at(file, 0, b"still usable").unwrap();
}

#[test]
fn removed_file_counts_until_it_is_closed() {
    let (mut vfs, root, top) = with_limits(VfsLimits { bytes: 100_000, ..VfsLimits::default() });
    vfs.write_file(root, "f", &[1; 80_000]).unwrap();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.retain(file).unwrap();
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"f").unwrap();
    assert_eq!(vfs.stat(file).unwrap().links, 0);
    assert!(vfs.write_file(root, "g", &[1; 80_000]).is_err());
    vfs.write_at(file, 0, b"x").unwrap();
    vfs.release(file);
    assert_eq!(vfs.read_at(file, 0, &mut [0; 9]), Ok(9));
    vfs.release(file);
    assert_eq!(vfs.read_at(file, 0, &mut [0; 9]), Err(VfsError::BadInode));
    vfs.write_file(root, "g", &[1; 80_000]).unwrap();
    // Releasing an inode too often has no effect.
    vfs.release(file);
    vfs.release(top);
    assert!(vfs.retain(file).is_err());
}

#[test]
fn times_come_from_the_caller() {
    let (mut vfs, _, top) = fresh();
    vfs.set_now_ns(100);
    let file = touch(&mut vfs, top, "f").unwrap();
    vfs.set_now_ns(200);
    vfs.write_at(file, 0, b"x").unwrap();
    vfs.set_now_ns(300);
    vfs.read_at(file, 0, &mut [0]).unwrap();
    let stat = vfs.stat(file).unwrap();
    assert_eq!((stat.accessed_ns, stat.modified_ns, stat.changed_ns), (100, 200, 200));
    vfs.set_times(file, Some(7), None).unwrap();
    vfs.set_times(file, None, Some(8)).unwrap();
    let stat = vfs.stat(file).unwrap();
    assert_eq!((stat.accessed_ns, stat.modified_ns, stat.changed_ns), (7, 8, 300));
    assert_eq!(vfs.stat(top).unwrap().modified_ns, 100);
    vfs.unlink(top, b"f").unwrap();
    assert_eq!(vfs.stat(top).unwrap().modified_ns, 300);
}

#[test]
fn equal_operations_give_equal_inode_numbers() {
    let numbers = || {
        let (mut vfs, _, top) = fresh();
        let a = touch(&mut vfs, top, "a").unwrap();
        vfs.unlink(top, b"a").unwrap();
        let b = vfs.create_dir(top, b"b").unwrap();
        let c = touch(&mut vfs, b, "c").unwrap();
        assert!(a.get() < b.get() && b.get() < c.get());
        [top, a, b, c].map(|id| id.get())
    };
    assert_eq!(numbers(), numbers());
}

#[test]
fn embedder_paths_stay_inside() {
    let (mut vfs, root, top) = fresh();
    vfs.symlink(b"../x", top, b"l").unwrap();
    for path in ["..", "/..", "../x", "a/../../x", "l"] {
        let refused = vfs.write_file(root, path, b"x").unwrap_err();
        assert!(matches!(refused.reason, VfsError::NotCapable | VfsError::IsADirectory), "{path}: {refused}");
    }
    let refused = vfs.read_file(root, "/no", 9).unwrap_err();
    assert_eq!(refused.to_string(), "`/no`: no such file or directory");
}

#[test]
fn root_cannot_be_removed() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "d/f", b"x").unwrap();
    for path in ["", "/", ".", "/.", "d/..", "./"] {
        let refused = vfs.remove(root, path).unwrap_err();
        assert_eq!(refused.reason, VfsError::Invalid, "{path}");
    }
    vfs.remove(root, "/d").unwrap();
    assert!(vfs.list(root, "/").unwrap().is_empty());
    assert_eq!(vfs.remove(root, "d").unwrap_err().reason, VfsError::NotFound);
}

#[test]
fn removing_a_symlink_leaves_its_target() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/f", b"x").unwrap();
    vfs.symlink(b"d", top, b"l").unwrap();
    vfs.remove(root, "l").unwrap();
    assert!(vfs.exists(root, "d/f").unwrap());
}

#[test]
fn failed_write_keeps_the_old_file() {
    let (mut vfs, root, _) = with_limits(VfsLimits { bytes: 20_000, ..VfsLimits::default() });
    vfs.write_file(root, "f", b"old").unwrap();
    let refused = vfs.write_file(root, "f", &[0; 30_000]).unwrap_err();
    assert_eq!(refused.reason, VfsError::NoSpace);
    assert_eq!(vfs.read_file(root, "f", 9).unwrap(), b"old");
    assert!(vfs.write_file(root, "g", &[0; 30_000]).is_err());
    // There is enough space for the data, but not for the inode as well.
    vfs.set_available_bytes(vfs.bytes_used() + 8_192 + 700);
    assert!(vfs.write_file(root, "g", &[0; 8_192]).is_err());
    assert!(!vfs.exists(root, "g").unwrap());
    vfs.write_file(root, "f", b"new").unwrap();
}

#[test]
fn read_over_the_requested_maximum_is_rejected() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "f", &[7; 10]).unwrap();
    assert!(vfs.read_file(root, "f", 9).is_err());
    assert_eq!(vfs.read_file(root, "f", 10).unwrap(), [7; 10]);
    vfs.write_file(root, "empty", b"").unwrap();
    assert_eq!(vfs.read_file(root, "empty", 0).unwrap(), b"");
}

#[test]
fn listing_is_sorted_and_complete() {
    let (mut vfs, root, _) = fresh();
    for n in (0..2_500).rev() {
        vfs.write_file(root, &format!("d/{n:04}"), b"").unwrap();
    }
    let listed = vfs.list(root, "/d").unwrap();
    assert_eq!(listed.len(), 2_500);
    assert!(listed.is_sorted_by(|a, b| a.name < b.name));
    assert!(listed.iter().all(|entry| entry.kind == FileKind::File));
}

#[test]
fn unknown_root_is_an_error() {
    let (mut other, _, _) = fresh();
    let unknown = other.add_root(Access::ReadWrite);
    let (mut vfs, root, _) = fresh();
    assert_eq!(vfs.access(unknown), None);
    assert_eq!(vfs.root_dir(unknown), None);
    vfs.set_access(unknown, Access::ReadOnly);
    assert!(vfs.changes(unknown).is_empty());
    assert!(vfs.commit_plan(unknown).is_empty());
    assert_eq!(vfs.mark_committed(unknown, []), Err(VfsError::BadInode));
    assert_eq!(vfs.exists(unknown, "x").unwrap_err().reason, VfsError::BadInode);
    assert_eq!(vfs.access(root), Some(Access::ReadWrite));
}

fn names(vfs: &mut Vfs, dir: InodeId) -> Vec<String> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(dir, cookie, 3).unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.next_cookie;
        found.extend(part.iter().map(|entry| entry.name.to_string()));
    }
    found
}

#[test]
fn every_page_size_gives_the_whole_listing() {
    let (mut vfs, _, top) = fresh();
    let dir = vfs.create_dir(top, b"d").unwrap();
    for n in 0..50 {
        touch(&mut vfs, dir, &format!("f{n}")).unwrap();
    }
    let whole = vfs.read_dir(dir, 0, 1_000).unwrap();
    assert_eq!(whole.len(), 52);
    assert_eq!((&*whole[0].name, whole[0].inode), (".", dir));
    assert_eq!((&*whole[1].name, whole[1].inode), ("..", top));
    assert_eq!(vfs.read_dir(top, 0, 2).unwrap()[1].inode, top);
    for size in 1..10 {
        let mut paged = Vec::new();
        let mut cookie = 0;
        loop {
            let part = vfs.read_dir(dir, cookie, size).unwrap();
            let Some(last) = part.last() else { break };
            assert!(part.len() <= size);
            cookie = last.next_cookie;
            paged.extend(part);
        }
        assert_eq!(paged, whole);
    }
    // A listing from an entry's cookie continues after this entry.
    for (at, entry) in whole.iter().enumerate() {
        let rest = vfs.read_dir(dir, entry.next_cookie, 1_000).unwrap();
        assert_eq!(rest, whole[at + 1..]);
    }
}

#[test]
fn renaming_in_a_loop_over_a_directory_ends() {
    let (mut vfs, _, top) = fresh();
    for n in 0..100 {
        touch(&mut vfs, top, &format!("f{n}")).unwrap();
    }
    let mut seen = 0;
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(top, cookie, 1).unwrap();
        let Some(entry) = part.first() else { break };
        cookie = entry.next_cookie;
        if entry.name.starts_with('f') {
            seen += 1;
            assert!(seen <= 100, "the listing contains names that the loop created");
            let new = format!("f{}x{seen}", entry.name);
            vfs.rename(top, entry.name.as_bytes(), top, new.as_bytes()).unwrap();
        }
    }
    assert_eq!(seen, 100);
}

#[test]
fn removing_between_pages_skips_nothing() {
    let (mut vfs, _, top) = fresh();
    for n in 0..100 {
        touch(&mut vfs, top, &format!("f{n:02}")).unwrap();
    }
    let mut seen = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(top, cookie, 7).unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.next_cookie;
        for entry in &part {
            assert!(seen.insert(entry.name.clone()), "{} twice", entry.name);
            if entry.name.starts_with('f') {
                vfs.unlink(top, entry.name.as_bytes()).unwrap();
            }
        }
        // A name that is removed and created again is a new entry; all other entries keep their positions.
        let _ = touch(&mut vfs, top, "f00");
    }
    assert_eq!(seen.len(), 102);
}

#[test]
fn replacing_between_pages_shows_the_name_once() {
    let (mut vfs, _, top) = fresh();
    for name in ["a", "b", "c", "d"] {
        touch(&mut vfs, top, name).unwrap();
    }
    let first = vfs.read_dir(top, 0, 3).unwrap();
    vfs.rename(top, b"d", top, b"c").unwrap();
    let rest = vfs.read_dir(top, first[2].next_cookie, 9).unwrap();
    let rest: Vec<&str> = rest.iter().map(|entry| &*entry.name).collect();
    assert_eq!(rest, ["b", "c"]);
}

#[test]
fn forged_cookies_are_harmless() {
    let (mut vfs, _, top) = fresh();
    let file = touch(&mut vfs, top, "f").unwrap();
    for cookie in [1, 2, 3, 4, 1 << 32, u64::MAX, u64::MAX - 1, 0xffff_ffff, 1 << 63] {
        assert!(vfs.read_dir(top, cookie, 10).unwrap().len() <= 3);
    }
    assert_eq!(vfs.read_dir(file, 0, 9), Err(VfsError::NotADirectory));
    assert!(vfs.read_dir(top, 0, 0).unwrap().is_empty());
    assert_eq!(names(&mut vfs, top), [".", "..", "f"]);
}
