//! All that is below a directory.

use glovebox_vfs::{FileKind, InodeId, Vfs, VfsError};

/// What a walk meets.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Relative to where the walk began.
    pub path: String,
    /// What it is in the file system.
    pub inode: InodeId,
    /// Its kind; a link's own.
    pub kind: FileKind,
}

/// All that is below `top`, at most `max_depth` names deep, in ascending order of paths, so that a directory comes before
/// what it contains. Goes through no link. What is met is bounded by the file system's quotas.
pub fn below(vfs: &mut Vfs, top: InodeId, max_depth: usize) -> Result<Vec<Walked>, (String, VfsError)> {
    let mut found = Vec::new();
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
                found.push(Walked { path, inode: entry.inode, kind: entry.kind });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
