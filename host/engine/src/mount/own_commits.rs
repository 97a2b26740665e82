//! Records of the commits by which a session changed host directories.

use std::collections::BTreeMap;

use glovebox_vfs::{CommitStep, FileKind, MountSource, RootId, SourceStat};

/// Limit on the remembered paths, in bytes. Beyond it all paths are forgotten. After a rollback, files that the session
/// itself wrote then conflict like files of others. The limit exists because scripts choose how many files they write.
const MAX_PATH_BYTES: usize = 4 << 20;

/// State of each path after a session's commits since its oldest checkpoint.
///
/// A checkpoint can hold uncommitted changes, together with the state of the host before them. If the session commits
/// after the checkpoint and then rolls back, it finds its own files on the host. This is not a conflict: the change is
/// committed over them.
///
/// This applies only while the host still has exactly the committed state. A file that became a directory, or a
/// directory that became a file, remains a conflict.
#[derive(Debug, Default)]
pub(crate) struct OwnCommits {
    left: BTreeMap<RootId, BTreeMap<String, Left>>,
    path_bytes: usize,
    count: u64,
    known: u64,
}

#[derive(Debug)]
struct Left {
    /// Number of the commit.
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
    /// Returns the number of commits.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of commits that the session's files include: all of them, unless it was rolled back since.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }

    /// Records a rollback to files that include the first `known` commits.
    pub(crate) fn rolled_back_to(&mut self, known: u64) {
        self.known = known;
    }

    /// Records the end of a commit. `whole` means that it covered all uncommitted changes. Forgets paths that no
    /// checkpoint can conflict with: those of the first `oldest` commits.
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

    /// Records the steps of a running commit in one host directory. `written` lists the files and links with their new
    /// state.
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

    /// Adjusts a commit plan, so that the session's own files on the host cause no conflicts.
    pub(crate) fn rebased(&self, root: RootId, host: &dyn MountSource, plan: Vec<CommitStep>) -> Vec<CommitStep> {
        match self.left.get(&root) {
            Some(paths) if !paths.is_empty() => {
                plan.into_iter().filter_map(|step| rebased_step(paths, host, step)).collect()
            }
            _ => plan,
        }
    }
}

/// Returns `None` if the host has the result of the step already.
fn rebased_step(paths: &BTreeMap<String, Left>, host: &dyn MountSource, mut step: CommitStep) -> Option<CommitStep> {
    let left = |path: &str| paths.get(path).map(|left| &left.what);
    match &mut step {
        CommitStep::CreateDir { path } => {
            let is_ours = matches!(left(path), Some(What::Folder));
            if is_ours && matches!(host.stat(path), Ok(Some(stat)) if stat.kind == FileKind::Directory) {
                return None;
            }
        }
        // A path that is gone already needs no change to its step.
        CommitStep::DeleteFile { path, .. } if matches!(left(path), Some(What::Nothing)) => {}
        CommitStep::DeleteFile { path, base }
        | CommitStep::WriteFile { path, base, .. }
        | CommitStep::Symlink { path, base, .. } => match left(path) {
            // Usually the guest's files include this state, and no lookup is needed.
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
