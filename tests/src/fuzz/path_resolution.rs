//! Tests that a guest stays inside its directory, for every path.

use glovebox_vfs::{Access, Follow, InodeId, OpenOptions, RootId, Vfs, VfsLimits};

use super::Bytes;

const BYTES: u64 = 1 << 20;
const INODES: u64 = 200;

/// Runs operations on arbitrary paths in one root, and checks that another root was neither reached nor changed.
pub fn path_resolution(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut vfs = Vfs::new(VfsLimits { bytes: BYTES, inodes: INODES, ..VfsLimits::default() });
    let app = vfs.add_root(Access::ReadWrite);
    let other = vfs.add_root(Access::ReadWrite);
    vfs.write_file(other, "/secret", b"secret").expect("a new file system has room");
    vfs.write_file(app, "/a/b/c", b"here").expect("a new file system has room");
    vfs.write_file(app, "/d", b"here").expect("a new file system has room");
    vfs.mark();
    let root = vfs.root_dir(app).expect("a root has a directory");
    let mut dirs = vec![root];

    while !bytes.is_empty() {
        let at = dirs[bytes.below(dirs.len())];
        step(&mut vfs, &mut bytes, at, root, app, &mut dirs);
        assert!(vfs.bytes_used() <= BYTES, "the quota on bytes holds");
        assert!(vfs.inodes_used() <= INODES, "the quota on inodes holds");
    }
    for dir in dirs.drain(1..) {
        vfs.release(dir);
    }
    let changes = vfs.changes(other);
    assert!(
        changes.created.is_empty() && changes.modified.is_empty() && changes.deleted.is_empty(),
        "the other root is untouched"
    );
    assert_eq!(vfs.read_file(other, "/secret", 100).expect("the secret still exists"), b"secret");
    // `changes` must work for all names that the guest created.
    let changes = vfs.changes(app);
    for path in changes.created.iter().chain(&changes.modified).chain(&changes.deleted) {
        assert!(
            !path.starts_with('/') && !path.split('/').any(|part| part == ".."),
            "`{path}` is relative to the workspace"
        );
    }
}

fn step(vfs: &mut Vfs, bytes: &mut Bytes<'_>, at: InodeId, root: InodeId, app: RootId, dirs: &mut Vec<InodeId>) {
    let what = bytes.byte();
    let path = path(bytes);
    let follow = if what & 0x80 == 0 { Follow::Yes } else { Follow::No };
    match what % 10 {
        0 | 1 => {
            let flags = bytes.byte();
            let options = OpenOptions {
                follow,
                create: flags & 1 != 0,
                exclusive: flags & 2 != 0,
                truncate: flags & 4 != 0,
                directory: flags & 8 != 0,
                write: flags & 16 != 0,
            };
            if let Ok(opened) = vfs.open(at, &path, options) {
                assert_eq!(vfs.root_of(opened.inode).ok(), Some(app), "{path:?} stays in its root");
                if opened.kind == glovebox_vfs::FileKind::Directory && dirs.len() < 8 {
                    dirs.push(opened.inode);
                } else {
                    let _ = vfs.write_at(opened.inode, u64::from(flags), b"written");
                    vfs.release(opened.inode);
                }
            }
        }
        2 => {
            if let Ok(found) = vfs.lookup(at, &path, follow) {
                assert_eq!(vfs.root_of(found).ok(), Some(app), "{path:?} stays in its root");
                let _ = vfs.stat(found);
            }
        }
        3 => drop(vfs.create_dir(at, &path)),
        4 => drop(vfs.remove_dir(at, &path)),
        5 => drop(vfs.unlink(at, &path)),
        6 => drop(vfs.symlink(&path, at, &self::path(bytes))),
        7 => drop(vfs.link(at, &path, follow, root, &self::path(bytes))),
        8 => drop(vfs.rename(at, &path, root, &self::path(bytes))),
        _ => drop(vfs.read_link(at, &path)),
    }
}

/// Reads a path: either arbitrary bytes, or a sequence of meaningful components.
fn path(bytes: &mut Bytes<'_>) -> Vec<u8> {
    const PARTS: [&[u8]; 14] =
        [b"a", b"b", b"c", b"d", b"..", b".", b"", b"/", b"secret", b"\xFF", b"\0", b"e\xCC\x81", b"../..", b"...."];
    if bytes.byte() & 1 == 0 {
        return bytes.run(255).to_vec();
    }
    let count = bytes.below(12);
    let parts: Vec<&[u8]> = (0..count).map(|_| PARTS[bytes.below(PARTS.len())]).collect();
    parts.join(&b'/')
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![
        // Creates the symlink `b` to `../..`, and looks up `b/secret`.
        vec![0, 6, 1, 1, 12, 1, 1, 1, 0, 2, 1, 2, 1, 8],
        (0..=255).collect(),
        // Renames `a` to `a/b`, and opens `../secret`.
        vec![0, 8, 1, 1, 0, 1, 2, 0, 1, 0, 0, 1, 2, 4, 8, 255],
    ]
}
