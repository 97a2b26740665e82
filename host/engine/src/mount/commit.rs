//! Commits a guest's writes to the host directory, all of them or none.

use std::collections::HashMap;

use glovebox_vfs::{CommitStep, RootId, SourceStat, Vfs};

use super::contents::Contents;
use super::directory::HostDirectory;
use super::error::MountError;
use super::folder::{Found, Ident};
use super::journal::{Journal, Step};
use super::lock::Lock;
use super::recover;
use super::site::Site;
use super::stage::{self, Stager};
use super::sweep;

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

        let (name, staging) = sweep::make(root)?;
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
fn settle(site: &mut Site<'_>, steps: &[Step], written: &mut [(String, SourceStat)]) {
    let moved = steps.iter().filter_map(|step| match step {
        Step::Create { path, new, .. } | Step::Replace { path, new, .. } => Some((path.as_str(), new)),
        Step::Remove { .. } | Step::RemoveFolder { .. } => None,
    });
    let moved: HashMap<&str, &Ident> = moved.collect();
    for (path, stat) in written {
        if let Some(new) = moved.get(path.as_str())
            && let Ok(Found::Known(now)) = site.find(path)
            && now.same(new)
        {
            *stat = now.source_stat();
        }
    }
}

/// Removes the private directory. The commit is done, so a failure is only logged; the next opening removes the rest.
fn discard(site: &Site<'_>) {
    if let Err(error) = sweep::remove(site.root, site.staging_name) {
        tracing::warn!(
            staging = site.staging_name,
            error = &error as &dyn std::error::Error,
            "could not remove a commit's private directory"
        );
    }
}
