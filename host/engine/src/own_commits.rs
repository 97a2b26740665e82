//! What a session's own commits wrote to host directories.

use std::collections::BTreeMap;

use glovebox_vfs::{CommitStep, FileKind, MountSource, RootId, SourceStat};

/// Paths remembered beyond this many bytes are forgotten, all of them: then changes that a session goes back to meet what it
/// wrote itself as anybody else's. Scripts choose how many files they write.
const MAX_PATH_BYTES: usize = 4 << 20;

/// What a session's commits left at each path, since its oldest checkpoint.
///
/// A checkpoint can hold changes that are not committed, and know of the host what stood there before. If the session has
/// committed since, what it finds there when it goes back is its own, and no conflict: the change is committed over it.
/// Only while the host has it exactly so; and where a file became a directory, or a directory a file, it stays a conflict.
#[derive(Debug, Default)]
pub(crate) struct OwnCommits {
    left: BTreeMap<RootId, BTreeMap<String, Left>>,
    path_bytes: usize,
    count: u64,
    known: u64,
}

#[derive(Debug)]
struct Left {
    /// The number of the commit.
    by: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A file or a link.
    File(SourceStat),
    Folder,
    Nothing,
}

impl OwnCommits {
    /// How many commits there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many of them the session's files know of: all, unless it was rolled back since.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }

    /// The session was rolled back to files that know of so many commits.
    pub(crate) fn rolled_back_to(&mut self, known: u64) {
        self.known = known;
    }

    /// A commit has ended, of all that was there to be committed or not. What a checkpoint that knows of `oldest` commits
    /// cannot meet is forgotten.
    pub(crate) fn ended(&mut self, whole: bool, oldest: Option<u64>) {
        self.count += 1;
        if whole {
            self.known = self.count;
        }
        let oldest = oldest.map_or(self.known, |oldest| oldest.min(self.known));
        let mut path_bytes = 0_usize;
        for paths in self.left.values_mut() {
            paths.retain(|path, left| {
                let stays = left.by > oldest;
                path_bytes = path_bytes.saturating_add(if stays { path.len() } else { 0 });
                stays
            });
        }
        self.path_bytes = path_bytes;
    }

    /// Records what a running commit did in one host directory: `written` are the files and links.
    pub(crate) fn note(&mut self, root: RootId, plan: &[CommitStep], written: &[(String, SourceStat)]) {
        let steps = plan.iter().filter_map(|step| match step {
            CommitStep::DeleteFile { path, .. } | CommitStep::RemoveDir { path } => Some((path, What::Nothing)),
            CommitStep::CreateDir { path } => Some((path, What::Folder)),
            _ => None,
        });
        let by = self.count + 1;
        let paths = self.left.entry(root).or_default();
        for (path, what) in steps.chain(written.iter().map(|(path, stat)| (path, What::File(*stat)))) {
            if paths.insert(path.clone(), Left { by, what }).is_none() {
                self.path_bytes = self.path_bytes.saturating_add(path.len());
            }
        }
        if self.path_bytes > MAX_PATH_BYTES {
            self.left.clear();
            self.path_bytes = 0;
        }
    }

    /// A plan that treats the session's own files on the host as such.
    pub(crate) fn rebased(&self, root: RootId, host: &dyn MountSource, plan: Vec<CommitStep>) -> Vec<CommitStep> {
        match self.left.get(&root) {
            Some(paths) if !paths.is_empty() => {
                plan.into_iter().filter_map(|step| rebased_step(paths, host, step)).collect()
            }
            _ => plan,
        }
    }
}

/// None when the host has already what the step would make.
fn rebased_step(paths: &BTreeMap<String, Left>, host: &dyn MountSource, mut step: CommitStep) -> Option<CommitStep> {
    let left = |path: &str| paths.get(path).map(|left| &left.what);
    match &mut step {
        CommitStep::CreateDir { path } => {
            let is_ours = matches!(left(path), Some(What::Folder));
            if is_ours && matches!(host.stat(path), Ok(Some(stat)) if stat.kind == FileKind::Directory) {
                return None;
            }
        }
        // A path that is gone already needs no step.
        CommitStep::DeleteFile { path, .. } if matches!(left(path), Some(What::Nothing)) => {}
        CommitStep::DeleteFile { path, base }
        | CommitStep::WriteFile { path, base, .. }
        | CommitStep::Symlink { path, base, .. } => match left(path) {
            // Usually the guest's files know it, and no lookup is needed.
            Some(What::File(ours)) if *base != Some(*ours) && host.stat(path) == Ok(Some(*ours)) => {
                *base = Some(*ours);
            }
            Some(What::Nothing) if base.is_some() && host.stat(path) == Ok(None) => *base = None,
            _ => {}
        },
        _ => {}
    }
    Some(step)
}
