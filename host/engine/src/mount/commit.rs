//! Commits a guest's writes to the host directory, all of them or none, and records the commits of a session.

use std::collections::{BTreeMap, HashMap};

use glovebox_vfs::{CommitStep, FileKind, MountSource, RootId, SourceStat, Vfs};

use super::{
    directory::HostDirectory,
    error::MountError,
    folder::{EntryAt, Ident},
    journal::{Journal, JournalStep},
    recover::{self, Lock},
    site::Site,
    stage::{self, Stager},
    tree::Contents,
};

/// The result of a commit.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CommitReport {
    /// New and changed files and links, with paths relative to the directory. The state is the one that the next commit
    /// compares with; pass both to [`Vfs::mark_committed`].
    pub written: Vec<(String, SourceStat)>,
    /// Bytes of file contents written.
    pub bytes: u64,
}

impl HostDirectory {
    /// Commits one root of a guest's file system and marks it as committed in the file system.
    ///
    /// # Errors
    ///
    /// The errors of [`commit`](Self::commit), and [`MountError::NotNoted`].
    pub fn commit_root(&self, vfs: &mut Vfs, root: RootId) -> Result<CommitReport, MountError> {
        let plan = vfs.commit_plan(root);
        let report = self.commit(&plan, vfs)?;
        vfs.mark_committed(root, report.written.iter().cloned()).map_err(|source| MountError::NotNoted { source })?;
        Ok(report)
    }

    /// Carries out a plan. When this returns `Ok`, all changes are on the disk; otherwise the directory is unchanged.
    ///
    /// Waits for other commits to the same directory for at most the time given to
    /// [`open_for_writing`](Self::open_for_writing). First finishes or undoes a commit that a crash interrupted. An
    /// empty plan touches nothing.
    ///
    /// # Errors
    ///
    /// [`MountError::Conflict`] if the host has changed one of the files meanwhile. [`MountError::LinkLeaves`] and
    /// [`MountError::ReservedName`] for links and names that are never written. [`MountError::Busy`] if another commit
    /// takes too long. Others, such as [`MountError::Io`].
    pub fn commit(&self, plan: &[CommitStep], contents: &mut dyn Contents) -> Result<CommitReport, MountError> {
        if !self.is_writable() {
            return Err(MountError::ReadOnly { path: self.path().to_owned() });
        }
        if plan.is_empty() {
            return Ok(CommitReport::default());
        }
        self.check_guarded()?;
        stage::refuse(plan)?;
        let root = self.root();
        let _lock = Lock::take(root, self.path(), self.lock_wait())?;
        recover::run(root, self.path())?;

        let (name, staging) = recover::make_staging(root)?;
        let mut site = Site::new(root, &staging, &name);
        let (journal, mut report) = match prepare(&mut site, plan, contents) {
            Ok(prepared) => prepared,
            Err(error) => {
                discard(&site);
                return Err(error);
            }
        };
        // A failure after this point that cannot be undone leaves the journal for the next opening.
        let undone = site.carry_out(&journal.steps)?;
        if undone.is_none() {
            settle(&mut site, &journal.steps, &mut report.written);
        }
        discard(&site);
        undone.map_or(Ok(report), Err)
    }
}

/// Prepares a commit up to the journal, without changing any file of the user.
pub(super) fn prepare(
    site: &mut Site<'_>,
    plan: &[CommitStep],
    contents: &mut dyn Contents,
) -> Result<(Journal, CommitReport), MountError> {
    let mut stager = Stager::new(site, plan);
    for step in plan {
        stager.add(step, contents)?;
    }
    stager.finish()?;
    let report = CommitReport { written: std::mem::take(&mut stager.written), bytes: stager.bytes };
    let mut steps = std::mem::take(&mut stager.steps);
    // Check only after staging, which takes long, to keep the time between check and change short.
    site.check(&steps)?;
    site.keep(&mut steps)?;
    let inode = |folder: &super::folder::Folder| {
        let both = folder.device_and_inode();
        both.map(|(_, inode)| inode).map_err(MountError::io("inspect", "."))
    };
    let journal = Journal { root: inode(site.root)?, staging: inode(site.staging)?, steps };
    journal.write(site.staging)?;
    Ok((journal, report))
}

/// Updates the reported states: moving a file to its path changes its change time. A file that the host has changed
/// since keeps the old state, so the next commit is a conflict.
fn settle(site: &mut Site<'_>, steps: &[JournalStep], written: &mut [(String, SourceStat)]) {
    let moved = steps.iter().filter_map(|step| match step {
        JournalStep::Create { path, new, .. } | JournalStep::Replace { path, new, .. } => Some((path.as_str(), new)),
        JournalStep::Remove { .. } | JournalStep::RemoveFolder { .. } => None,
    });
    let moved: HashMap<&str, &Ident> = moved.collect();
    for (path, stat) in written {
        if let Some(new) = moved.get(path.as_str())
            && let Ok(EntryAt::Known(now)) = site.find(path)
            && now.same(new)
        {
            *stat = now.source_stat();
        }
    }
}

/// Removes the private directory. The commit is done, so a failure is only logged; the next opening removes the rest.
fn discard(site: &Site<'_>) {
    if let Err(error) = recover::remove_staging(site.root, site.staging_name) {
        tracing::warn!(
            staging = site.staging_name,
            error = &error as &dyn std::error::Error,
            "could not remove a commit's private directory"
        );
    }
}

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
    what: LeftEntry,
}

#[derive(Debug)]
enum LeftEntry {
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
            CommitStep::DeleteFile { path, .. } | CommitStep::RemoveDir { path } => Some((path, LeftEntry::Nothing)),
            CommitStep::CreateDir { path } => Some((path, LeftEntry::Folder)),
            _ => None,
        });
        let by = self.count + 1;
        let paths = self.left.entry(root).or_default();
        for (path, what) in steps.chain(written.iter().map(|(path, stat)| (path, LeftEntry::File(*stat)))) {
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
            let is_ours = matches!(left(path), Some(LeftEntry::Folder));
            if is_ours && matches!(host.stat(path), Ok(Some(stat)) if stat.kind == FileKind::Directory) {
                return None;
            }
        }
        // A path that is gone already needs no change to its step.
        CommitStep::DeleteFile { path, .. } if matches!(left(path), Some(LeftEntry::Nothing)) => {}
        CommitStep::DeleteFile { path, base }
        | CommitStep::WriteFile { path, base, .. }
        | CommitStep::Symlink { path, base, .. } => match left(path) {
            // Usually the guest's files include this state, and no lookup is needed.
            Some(LeftEntry::File(ours)) if *base != Some(*ours) && host.stat(path) == Ok(Some(*ours)) => {
                *base = Some(*ours);
            }
            Some(LeftEntry::Nothing) if base.is_some() && host.stat(path) == Ok(None) => *base = None,
            _ => {}
        },
        _ => {}
    }
    Some(step)
}
