//! Tests of file systems that are saved after random operations and then modified.

use std::collections::{BTreeMap, BTreeSet};

use glovebox_vfs::{CommitStep, FileKind, InodeId, RootId, Vfs};
use proptest::prelude::*;

use super::{
    operations::{World, op},
    reference::{NodeKind, Reference},
    runner,
};

#[derive(Clone, Debug)]
enum Forgery {
    Flip(usize, u8),
    Put(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Cut(usize),
    /// Copies bytes from another position.
    Copy(usize, usize, usize),
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let at = || any::<usize>();
    let byte = prop_oneof![3 => 0..32_u8, 1 => any::<u8>(), 1 => Just(0x80), 1 => Just(b'/'), 1 => Just(b'.')];
    prop_oneof![
        4 => (at(), 0..8_u8).prop_map(|(at, bit)| Forgery::Flip(at, 1 << bit)),
        6 => (at(), byte.clone()).prop_map(|(at, byte)| Forgery::Put(at, byte)),
        1 => (at(), byte).prop_map(|(at, byte)| Forgery::Insert(at, byte)),
        1 => at().prop_map(Forgery::Remove),
        1 => at().prop_map(Forgery::Cut),
        2 => (at(), at(), 1..40_usize).prop_map(|(from, to, len)| Forgery::Copy(from, to, len)),
    ]
}

impl Forgery {
    fn apply(self, bytes: &mut Vec<u8>) {
        let len = bytes.len().max(1);
        match self {
            _ if bytes.is_empty() => {}
            Self::Flip(at, bit) => bytes[at % len] ^= bit,
            Self::Put(at, byte) => bytes[at % len] = byte,
            Self::Insert(at, byte) => bytes.insert(at % len, byte),
            Self::Remove(at) => drop(bytes.remove(at % len)),
            Self::Cut(at) => bytes.truncate(at % len),
            Self::Copy(from, to, count) => {
                let piece = bytes[from % len..len.min(from % len + count)].to_vec();
                let to = to % len;
                let end = len.min(to + piece.len());
                bytes[to..end].copy_from_slice(&piece[..end - to]);
            }
        }
    }
}

/// Checks the invariants of a file system that was restored from untrusted bytes.
fn check_sound(world: &World, mut vfs: Vfs, root: RootId, open: &BTreeSet<InodeId>, references: &[u64]) {
    let saved = vfs.save(open);
    let (mut again, _) = world.like_new();
    again.restore(&saved, references).unwrap();
    assert_eq!(again.save(open), saved);
    // Forged bytes can contain entries that equal entries of the source. These entries are not saved again.
    assert!(again.bytes_used() <= vfs.bytes_used());
    assert!(vfs.bytes_used() <= vfs.limits().bytes + (1 << 20) && vfs.inodes_used() <= vfs.limits().inodes);

    let is_path = |path: &str| path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'));
    for step in vfs.commit_plan(root) {
        let path = match step {
            CommitStep::DeleteFile { path, .. }
            | CommitStep::RemoveDir { path }
            | CommitStep::CreateDir { path }
            | CommitStep::WriteFile { path, .. }
            | CommitStep::Symlink { path, .. } => path,
            _ => panic!("unknown step"),
        };
        assert!(is_path(&path), "{path:?}");
    }
    // Read and remove everything. A source might not have the entries that the bytes claim.
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in vfs.list(root, &dir).unwrap_or_default() {
            let path = format!("{dir}/{}", entry.name);
            if entry.kind == FileKind::Directory {
                dirs.push(path);
            } else {
                let _ = vfs.read_file(root, &path, 1 << 20);
            }
        }
    }
    for number in references {
        vfs.release(vfs.inode_numbered(*number).unwrap());
    }
    let names: Vec<_> = vfs.list(root, "").unwrap_or_default().into_iter().map(|entry| entry.name).collect();
    if names.iter().all(|name| vfs.remove(root, name).is_ok()) && vfs.list(root, "").is_ok() {
        vfs.mark();
        vfs.mark_committed(root, []).unwrap();
        assert_eq!((vfs.bytes_used(), vfs.inodes_used()), (0, 0), "all charges are refunded");
    }
}

fn run(name: &str, mounted: bool) {
    let input = (prop::collection::vec(op(), 1..50), prop::collection::vec(prop::collection::vec(forgery(), 1..4), 20));
    let (mut tried, mut accepted) = (0_u32, 0_u32);
    let counts = std::cell::RefCell::new((&mut tried, &mut accepted));
    runner(name)
        .run(&input, |(ops, forgeries)| {
            let mut world = World::new(mounted);
            ops.into_iter().for_each(|op| world.step(op));
            let open: BTreeSet<InodeId> = world.held.iter().map(|&(inode, _)| inode).collect();
            let references: Vec<u64> = world.held.iter().map(|(inode, _)| inode.get()).collect();
            let saved = world.vfs.save(&open);
            for forgery in forgeries {
                let mut bytes = saved.clone();
                forgery.into_iter().for_each(|forgery| forgery.apply(&mut bytes));
                let (mut vfs, root) = world.like_new();
                *counts.borrow_mut().0 += 1;
                if vfs.restore(&bytes, &references).is_ok() {
                    *counts.borrow_mut().1 += 1;
                    check_sound(&world, vfs, root, &open, &references);
                } else {
                    assert_eq!(vfs.save(&BTreeSet::new()), world.like_new().0.save(&BTreeSet::new()));
                }
            }
            Ok(())
        })
        .unwrap();
    println!("{name}: {accepted} of {tried} accepted");
    assert!(accepted > 0, "changes of file content only must be accepted");
}

#[test]
fn forged_bytes_are_rejected_or_restore_soundly() {
    run("forged_bytes_are_rejected_or_restore_soundly", false);
}

#[test]
fn forged_bytes_over_a_mount_are_rejected_or_sound() {
    run("forged_bytes_over_a_mount_are_rejected_or_sound", true);
}

pub(crate) fn read_all(vfs: &mut Vfs, inode: InodeId) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(vfs.stat(inode).unwrap().size_bytes).unwrap()];
    let mut done = 0;
    while done < data.len() {
        // With an odd step size, reads cross chunk boundaries at different positions.
        let end = data.len().min(done + 3_001);
        let read = vfs.read_at(inode, done as u64, &mut data[done..end]).unwrap();
        assert!(read > 0);
        done += read;
    }
    data
}

/// Compares the whole tree and the reported changes. Changes are compared first, because they must not depend on
/// listings.
pub(crate) fn check(vfs: &mut Vfs, root: RootId, model: &Reference) {
    assert_eq!(vfs.changes(root), model.changes());
    let mut found = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in vfs.list(root, &dir).unwrap() {
            let path = if dir.is_empty() { entry.name.to_string() } else { format!("{dir}/{}", entry.name) };
            let kind = match entry.kind {
                FileKind::Directory => {
                    dirs.push(path.clone());
                    NodeKind::Dir
                }
                FileKind::File => NodeKind::File,
                FileKind::Symlink => NodeKind::Link,
            };
            let top = vfs.root_dir(root).unwrap();
            match model.tree.get(&path) {
                Some((id, NodeKind::File)) => {
                    let stat = vfs.stat(entry.inode).unwrap();
                    let names = model.tree.values().filter(|(other, _)| other == id);
                    assert_eq!(stat.links, names.count() as u64, "{path}");
                    assert_eq!(stat.size_bytes, model.data[id].len() as u64, "{path}");
                    assert_eq!(&read_all(vfs, entry.inode), &model.data[id], "{path}");
                }
                Some((id, NodeKind::Link)) => {
                    let target = vfs.read_link(top, path.as_bytes()).unwrap();
                    assert_eq!(*target, *model.targets[id], "{path}");
                }
                _ => {}
            }
            found.insert(path, kind);
        }
    }
    let expected: BTreeMap<String, NodeKind> =
        model.tree.iter().map(|(path, &(_, kind))| (path.clone(), kind)).collect();
    assert_eq!(found, expected);
    assert_eq!(vfs.changes(root), model.changes());
}
