//! Recursive listing of a directory.

use glovebox_vfs::{FileKind, InodeId, Vfs, VfsError};

/// An entry of a recursive listing.
#[derive(Clone, Debug)]
pub struct Walked {
    /// The path, relative to the start of the walk.
    pub path: String,
    /// The entry's inode.
    pub inode: InodeId,
    /// The entry's type; links are not followed.
    pub kind: FileKind,
}

/// Returns all entries below `top`, at most `max_depth` levels deep, sorted by path: a directory comes before its
/// entries. Does not follow links. The file system's quotas bound the result.
pub fn below(vfs: &mut Vfs, top: InodeId, max_depth: usize) -> Result<Vec<Walked>, (String, VfsError)> {
    let mut found = Vec::new();
    each_below(vfs, top, max_depth, |entry| found.push(entry))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Calls `visit` with each entry that [`below`] returns, in no particular order.
pub fn each_below(
    vfs: &mut Vfs,
    top: InodeId,
    max_depth: usize,
    mut visit: impl FnMut(Walked),
) -> Result<(), (String, VfsError)> {
    let mut left = vec![(String::new(), top, 0_usize)];
    while let Some((dir, inode, depth)) = left.pop() {
        if depth >= max_depth {
            continue;
        }
        let mut cookie = 0;
        loop {
            let part = vfs.read_dir(inode, cookie, usize::MAX).map_err(|error| (dir.clone(), error))?;
            let Some(last) = part.last() else { break };
            cookie = last.next_cookie;
            for entry in part.iter().filter(|entry| !matches!(&*entry.name, "." | "..")) {
                let path = if dir.is_empty() { entry.name.to_string() } else { format!("{dir}/{}", entry.name) };
                if entry.kind == FileKind::Directory {
                    left.push((path.clone(), entry.inode, depth + 1));
                }
                visit(Walked { path, inode: entry.inode, kind: entry.kind });
            }
        }
    }
    Ok(())
}
