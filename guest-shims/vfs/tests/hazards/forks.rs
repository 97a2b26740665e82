use glovebox_vfs::{Access, FileKind, Vfs, VfsError, VfsLimits};

use crate::{fresh, touch};

#[test]
fn forks_never_see_each_other() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "d/shared", &[1; 20_000]).unwrap();
    let shared = vfs.file_stat(root, "d/shared").unwrap().inode;
    let mut fork = vfs.clone();
    fork.write_at(shared, 10_000, b"fork").unwrap();
    fork.write_file(root, "d/new", b"fork").unwrap();
    vfs.rename(top, b"d", top, b"e").unwrap();
    vfs.set_len(shared, 3).unwrap();
    assert_eq!(vfs.read_file(root, "e/shared", 99).unwrap(), [1; 3]);
    let data = fork.read_file(root, "d/shared", 99_999).unwrap();
    assert_eq!(data.len(), 20_000);
    assert_eq!(&data[9_999..10_005], b"\x01fork\x01");
    assert!(!vfs.exists(root, "e/new").unwrap());
    assert_eq!(fork.changes(root).created, ["d/new", "d/shared"]);
    assert_eq!(vfs.changes(root).created, ["e/shared"]);
}

#[test]
fn a_fork_keeps_its_own_handles_and_removed_files() {
    let (mut vfs, root, top) = fresh();
    vfs.write_file(root, "f", b"data").unwrap();
    let file = vfs.file_stat(root, "f").unwrap().inode;
    vfs.retain(file).unwrap();
    vfs.unlink(top, b"f").unwrap();
    let mut fork = vfs.clone();
    vfs.release(file);
    assert_eq!(vfs.stat(file), Err(VfsError::BadInode));
    let mut data = [0; 4];
    assert_eq!(fork.read_at(file, 0, &mut data), Ok(4));
    assert_eq!(&data, b"data");
    assert!(fork.bytes_used() > vfs.bytes_used());
    fork.release(file);
    assert_eq!(fork.bytes_used(), 0);
}

/// Forks for each write. The cost of each must depend on the change, not on the size of the tree.
#[test]
fn forking_a_large_tree_is_cheap() {
    let mut vfs = Vfs::new(VfsLimits { bytes: 1 << 30, inodes: u64::MAX, ..VfsLimits::default() });
    let root = vfs.add_root(Access::ReadWrite);
    for n in 0..200 {
        vfs.write_file(root, &format!("d{}/f{n}", n % 10), &[1; 100_000]).unwrap();
    }
    let start = std::time::Instant::now();
    let forks: Vec<Vfs> = (0..100_000).map(|_| vfs.clone()).collect();
    assert!(start.elapsed().as_secs() < 60);
    drop(forks);
    let start = std::time::Instant::now();
    for n in 0..1_000 {
        let mut fork = vfs.clone();
        fork.write_file(root, &format!("d1/g{n}"), b"x").unwrap();
    }
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn it_may_cross_threads() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<Vfs>();
    let (mut vfs, root, top) = fresh();
    touch(&mut vfs, top, "f").unwrap();
    let forks: Vec<_> = (0..4)
        .map(|n| {
            let mut fork = vfs.clone();
            std::thread::spawn(move || {
                for m in 0..100 {
                    fork.write_file(root, &format!("{n}/{m}"), b"x").unwrap();
                }
                fork.changes(root).created.len()
            })
        })
        .collect();
    for fork in forks {
        assert_eq!(fork.join().unwrap(), 101);
    }
    assert_eq!(vfs.list(root, "").unwrap().len(), 1);
    assert_eq!(vfs.file_stat(root, "f").unwrap().kind, FileKind::File);
}

#[test]
fn what_a_guest_stores_does_not_reach_a_log() {
    let (mut vfs, root, _) = fresh();
    vfs.write_file(root, "name-of-a-file", b"its secret").unwrap();
    let logged = format!("{vfs:?}");
    assert!(logged.contains("bytes_used") && logged.len() < 500, "{logged}");
    assert!(!logged.contains("name-of-a-file"));
}
