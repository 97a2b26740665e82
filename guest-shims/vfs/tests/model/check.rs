//! Compares a file system with a map of paths.

use std::collections::BTreeMap;

use glovebox_vfs::{FileKind, InodeId, RootId, Vfs};

use crate::reference::{Kind, Reference};

pub(crate) fn read_all(vfs: &mut Vfs, inode: InodeId) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(vfs.stat(inode).unwrap().size_bytes).unwrap()];
    let mut done = 0;
    while done < data.len() {
        // Odd step sizes hit chunk borders at different positions.
        let end = data.len().min(done + 3_001);
        let read = vfs.read_at(inode, done as u64, &mut data[done..end]).unwrap();
        assert!(read > 0);
        done += read;
    }
    data
}

/// Compares the whole tree and the reported changes. The changes come first, because they must not depend on listings.
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
                    Kind::Dir
                }
                FileKind::File => Kind::File,
                FileKind::Symlink => Kind::Link,
            };
            let top = vfs.root_dir(root).unwrap();
            match model.tree.get(&path) {
                Some((id, Kind::File)) => {
                    let stat = vfs.stat(entry.inode).unwrap();
                    let names = model.tree.values().filter(|(other, _)| other == id);
                    assert_eq!(stat.links, names.count() as u64, "{path}");
                    assert_eq!(stat.size_bytes, model.data[id].len() as u64, "{path}");
                    assert_eq!(&read_all(vfs, entry.inode), &model.data[id], "{path}");
                }
                Some((id, Kind::Link)) => {
                    let target = vfs.read_link(top, path.as_bytes()).unwrap();
                    assert_eq!(*target, *model.targets[id], "{path}");
                }
                _ => {}
            }
            found.insert(path, kind);
        }
    }
    let expected: BTreeMap<String, Kind> = model.tree.iter().map(|(path, &(_, kind))| (path.clone(), kind)).collect();
    assert_eq!(found, expected);
    assert_eq!(vfs.changes(root), model.changes());
}
