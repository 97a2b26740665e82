//! Fuzzes path resolution with random bytes as paths and symlink targets. Checks that nothing panics, that no path
//! leaves its directory, and that the work is bounded. `GLOVEBOX_FUZZ_ITERATIONS` sets the number of iterations
//! (default 20,000).

use glovebox_vfs::{Access, Follow, InodeId, OpenOptions, Vfs, VfsLimits};

use crate::support::{Random, seed};

/// Returns a path that may exist, or, less often, arbitrary bytes.
fn bytes(random: &mut Random) -> Vec<u8> {
    let mut made = Vec::new();
    if random.below(4) > 0 {
        for _ in 0..=random.below(4) {
            let parts = ["a", "b", "c", "d", "f", "f", "..", "..", ".", ""];
            made.extend_from_slice(parts[random.below(parts.len())].as_bytes());
            made.push(b'/');
        }
        if random.below(8) > 0 {
            made.pop();
        }
        return made;
    }
    for _ in 0..random.below(12) {
        match random.below(8) {
            0..=2 => made.extend_from_slice([&b"a"[..], b"b", b"c", b"d"][random.below(4)]),
            3 | 4 => made.push(b'/'),
            5 => made.extend_from_slice(b".."),
            6 => made.extend_from_slice("é\\".as_bytes()),
            _ => made.push((random.next() & 0xff) as u8),
        }
    }
    if random.below(200) == 0 {
        let times = random.below(3_000);
        made = made.repeat(times);
    }
    made
}

fn is_inside(vfs: &Vfs, inode: InodeId, base: InodeId) -> bool {
    // The first name of a file with several names may be in another directory.
    if vfs.stat(inode).unwrap().links > 1 {
        return true;
    }
    let (Some(path), Some(base)) = (vfs.path_of(inode), vfs.path_of(base)) else {
        return false;
    };
    base.is_empty() || path == base || path.starts_with(&format!("{base}/"))
}

fn step(vfs: &mut Vfs, random: &mut Random, base: InodeId, top: InodeId) {
    let (path, other) = (bytes(random), bytes(random));
    let follow = [Follow::Yes, Follow::No][random.below(2)];
    let flags = random.next();
    let options = OpenOptions {
        follow,
        create: flags & 1 != 0,
        exclusive: flags & 2 != 0,
        truncate: flags & 4 != 0,
        directory: flags & 8 != 0,
        write: flags & 16 != 0,
    };
    match random.below(10) {
        0 | 1 => {
            if let Ok(opened) = vfs.open(base, &path, options) {
                assert!(is_inside(vfs, opened.inode, base), "{path:?}");
                vfs.release(opened.inode);
            }
        }
        2 => {
            if let Ok(made) = vfs.create_dir(base, &path) {
                assert!(is_inside(vfs, made, base), "{path:?}");
            }
        }
        3 | 4 => drop(vfs.symlink(&other, base, &path)),
        5 => drop(vfs.rename(base, &path, top, &other)),
        6 => drop(vfs.link(base, &path, follow, top, &other)),
        7 => drop(vfs.unlink(base, &path)),
        8 => drop(vfs.remove_dir(base, &path)),
        _ => drop(vfs.read_link(base, &path)),
    }
    if let Ok(found) = vfs.lookup(base, &path, follow) {
        assert!(is_inside(vfs, found, base), "{path:?}");
    }
    // At most 4 calls, each with at most 41 paths of at most 2,048 components, plus listed entries.
    assert!(vfs.take_work() < 4 * 41 * 2_048 + 100_000);
}

#[test]
fn random_bytes_never_leave_the_directory() {
    let iterations = std::env::var("GLOVEBOX_FUZZ_ITERATIONS").map_or(20_000, |text| text.parse().expect("a number"));
    let mut random = Random(seed("random_bytes_never_leave_the_directory"));
    let limits = VfsLimits { bytes: 1 << 20, inodes: 60, ..VfsLimits::default() };
    let mut vfs = Vfs::new(limits);
    let mut root = vfs.add_root(Access::ReadWrite);
    for n in 0..iterations {
        if n % 500 == 0 {
            vfs = Vfs::new(limits);
            root = vfs.add_root(Access::ReadWrite);
            for dir in ["a/a/a", "a/b", "b/c", "c/a/b"] {
                vfs.write_file(root, &format!("{dir}/f"), b"x").unwrap();
            }
        }
        let top = vfs.root_dir(root).unwrap();
        let bases = [&b"."[..], b"a", b"a/a", b"c/a"];
        let base = bases[random.below(bases.len())];
        let Ok(base) = vfs.lookup(top, base, Follow::Yes) else {
            continue;
        };
        step(&mut vfs, &mut random, base, top);
        assert!(vfs.inodes_used() <= limits.inodes);
    }
}
