//! Commit plans: steps that make another directory equal to a root.

use std::sync::Arc;

use crate::{
    changes::{Difference, Differences, Journal, Node},
    inode::{Body, Content, FileKind, InodeId, Name, RootId, SourcePath},
    limits::VfsError,
    mount::SourceStat,
    vfs::{Vfs, root_mut},
};

/// A step of a commit plan. Paths are relative to the root, without `.`, `..` or empty components.
///
/// A `base` is the source's stat of the file at this path, as of its last listing or commit. If the current stat
/// differs, another program has changed the file, which is a conflict. `None` means that there was no file at this
/// path; an existing file is then a conflict, too.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CommitStep {
    /// Removes a file or symlink.
    DeleteFile {
        /// The path to remove.
        path: String,
        /// The file that is expected at this path.
        base: Option<SourceStat>,
    },
    /// Removes a directory that earlier steps have emptied.
    RemoveDir {
        /// The path to remove.
        path: String,
    },
    /// Creates a directory.
    CreateDir {
        /// The path to create.
        path: String,
    },
    /// Writes a file, replacing any existing file or symlink.
    WriteFile {
        /// The path to write to.
        path: String,
        /// The file with the content to write. Read the content with [`Vfs::read_at`].
        inode: InodeId,
        /// The length of the file in bytes.
        size_bytes: u64,
        /// The time of the last modification, in nanoseconds since 1970.
        modified_ns: u64,
        /// The file that is expected at this path.
        base: Option<SourceStat>,
    },
    /// Creates a symlink, replacing any existing file or symlink.
    Symlink {
        /// The path to create.
        path: String,
        /// The link's target, which the guest chose.
        target: Arc<str>,
        /// `true` if the target may leave the root when another program follows the link, for example on a host.
        escapes: bool,
        /// The file that is expected at this path.
        base: Option<SourceStat>,
    },
}

/// Returns `true` if a target can leave the root. A relative target cannot leave the root if all its `..` come first
/// and their number does not exceed the depth of the link's directory. Later components only descend, and each symlink
/// on the way is checked separately.
fn escapes(path: &str, target: &str) -> bool {
    let mut above = path.split('/').count().saturating_sub(1);
    let mut descended = false;
    if target.starts_with('/') {
        return true;
    }
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." if descended || above == 0 => return true,
            ".." => above = above.saturating_sub(1),
            _ => descended = true,
        }
    }
    false
}

impl Vfs {
    /// Returns the steps that make the source's directory equal to the root. The steps cover the changes since the
    /// root was added or last committed, independently of [`mark`](Self::mark). For a root without a source, the steps
    /// fill an empty directory.
    ///
    /// The steps are in a valid order: removals from the bottom up, then directories from the top down, then files.
    /// Read the content of every [`CommitStep::WriteFile`] before carrying out the first step: a renamed mounted file
    /// is still read from its old path.
    ///
    /// The cost is proportional to the number of changes. The file system is not modified. When all steps have been
    /// carried out, call [`mark_committed`](Self::mark_committed).
    pub fn commit_plan(&self, root: RootId) -> Vec<CommitStep> {
        let Ok(root) = self.root(root) else {
            return Vec::new();
        };
        let (mut deletions, mut removed_dirs) = (Vec::new(), Vec::new());
        let (mut made_dirs, mut files) = (Vec::new(), Vec::new());
        let is_dir = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.kind == FileKind::Directory);
        for (path, Difference { before, after }) in self.differences(&root.committed) {
            let (was_dir, now_dir) = (is_dir(&before), is_dir(&after));
            let file_before = before.filter(|_| !was_dir);
            let file_after = after.filter(|_| !now_dir);
            if was_dir && !now_dir {
                removed_dirs.push(CommitStep::RemoveDir { path: path.clone() });
            }
            let base = file_before.as_ref().and_then(|file| file.base.as_deref());
            if file_before.is_some() && file_after.is_none() {
                deletions.push(CommitStep::DeleteFile { path: path.clone(), base: base.copied() });
            }
            if now_dir && !was_dir {
                made_dirs.push(CommitStep::CreateDir { path });
            } else if let Some(file) = file_after {
                files.extend(self.file_step(path, file.inode, base.copied()));
            }
        }
        // A directory sorts before its entries.
        removed_dirs.reverse();
        deletions.append(&mut removed_dirs);
        deletions.append(&mut made_dirs);
        deletions.append(&mut files);
        deletions
    }

    fn file_step(&self, path: String, inode: InodeId, base: Option<SourceStat>) -> Option<CommitStep> {
        let found = self.inode(inode).ok()?;
        match &found.body {
            Body::File { size_bytes, .. } => Some(CommitStep::WriteFile {
                path,
                inode,
                size_bytes: *size_bytes,
                modified_ns: found.times.modified_ns,
                base,
            }),
            Body::Symlink(target) => {
                Some(CommitStep::Symlink { escapes: escapes(&path, target), target: target.clone(), path, base })
            }
            Body::Directory { .. } => None,
        }
    }

    /// Records that all steps of [`commit_plan`](Self::commit_plan) were carried out. The file system must not have
    /// changed in the meantime. `written` contains the source's stat of every created or replaced file and symlink, for
    /// comparison in the next commit.
    ///
    /// A mounted file that was removed but is still open can no longer be read.
    ///
    /// # Errors
    /// Returns [`VfsError::BadInode`] for an unknown root, and [`VfsError::NotFound`] if a path in `written` does not
    /// exist. In both cases, nothing is recorded.
    pub fn mark_committed(
        &mut self,
        root: RootId,
        written: impl IntoIterator<Item = (String, SourceStat)>,
    ) -> Result<(), VfsError> {
        let paths = self.paths_in_question(&self.root(root)?.committed);
        let mut bases = Vec::new();
        // A file may have returned to its path through another directory or a hard link. In that case, the source still
        // has the same file at that path.
        for (path, Difference { before, after }) in &paths {
            if let (Some(before), Some(after)) = (before, after)
                && before.inode == after.inode
                && before.kind != FileKind::Directory
            {
                bases.push((self.find_entry(root, path)?, before.base.clone()));
            }
        }
        for (path, stat) in written {
            bases.push((self.find_entry(root, &path)?, Some(Arc::new(stat))));
        }
        self.follow_sources(root, paths)?;
        for ((dir, name), base) in bases {
            if let Body::Directory { entries, .. } = &mut self.inode_mut(dir)?.body {
                Arc::make_mut(entries).set_base(&name, base);
            }
        }
        let state = Arc::make_mut(&mut self.state);
        if let Some(root) = root_mut(state, root) {
            let journal: Arc<Journal> = std::mem::take(&mut root.committed);
            let usage = &mut state.usage;
            usage.tombstone_bytes = usage.tombstone_bytes.saturating_sub(journal.bytes());
        }
        Ok(())
    }

    /// Updates the source paths of mounted files that the commit renamed. An inode without a name loses its source
    /// path, because another file is at that path.
    fn follow_sources(&mut self, root: RootId, paths: Differences) -> Result<(), VfsError> {
        let open = self.state.open.keys().copied();
        let lost: Vec<InodeId> = open
            .filter(|&id| {
                let inode = self.inode(id);
                inode.is_ok_and(|inode| inode.root == root && inode.links.is_empty())
            })
            .collect();
        for id in lost {
            if matches!(self.file(id), Ok((_, Content::Mounted))) {
                self.forget_cached(id);
                if let Body::File { content, .. } = &mut self.inode_mut(id)?.body {
                    *content = Content::Gone;
                }
            }
        }
        let mut last_dir: Arc<str> = Arc::from("");
        for Difference { before, after } in paths.into_values() {
            for node in [before, after].into_iter().flatten() {
                if !matches!(self.file(node.inode), Ok((_, Content::Mounted))) {
                    continue;
                }
                let Some(path) = self.path_of(node.inode) else {
                    continue;
                };
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", &path));
                if *last_dir != *dir {
                    last_dir = Arc::from(dir);
                }
                self.inode_mut(node.inode)?.source =
                    Some(Arc::new(SourcePath { dir: last_dir.clone(), name: Name::from(name) }));
            }
        }
        Ok(())
    }

    /// Returns the directory entry at a path, without following symlinks or accessing a source.
    fn find_entry(&self, root: RootId, path: &str) -> Result<(InodeId, Name), VfsError> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut names = parent.split('/').filter(|name| !name.is_empty());
        let entry = |dir, name: &str| self.inode(dir).ok()?.entries()?.get(name);
        let dir = names.try_fold(self.root(root)?.dir, |dir, name| entry(dir, name).map(|entry| entry.inode));
        let dir = dir.ok_or(VfsError::NotFound)?;
        entry(dir, name).ok_or(VfsError::NotFound)?;
        Ok((dir, Name::from(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::escapes;

    #[test]
    fn links_that_may_leave_the_root_are_detected() {
        for (path, target, expected) in [
            ("a", "b", false),
            ("a", "../b", true),
            ("d/a", "../b", false),
            ("d/a", "./..//b", false),
            ("d/a", "../../b", true),
            ("d/a", "/etc/passwd", true),
            // `s` may be a symlink to `.`, so this target may climb twice.
            ("d/a", "s/../../x", true),
            ("d/e/a", "s/..", true),
        ] {
            assert_eq!(escapes(path, target), expected, "{path} -> {target}");
        }
    }
}
