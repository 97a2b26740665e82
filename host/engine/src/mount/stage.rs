//! Writes new entries to the commit's private directory and plans the steps that move them.

use std::{
    collections::HashMap,
    io::{self, Write as _},
    os::unix::fs::fchown,
};

use cap_std::fs::{File, Permissions, PermissionsExt as _};
use glovebox_vfs::{CommitStep, InodeId, SourceStat, Vfs, VfsError};

use super::{
    commit::{self, Walker, WrittenFiles},
    error::{Collision, MountError},
    folder::{EntryAt, EntryIdentity, EntryKind, Folder},
    journal::{JournalStep, new_slot},
    site::CommitSite,
};

/// The buffer size for copying contents, in bytes: one chunk of a mounted file.
const BUFFER_BYTES: usize = 64 << 10;

/// Rejects links and paths that must never be written, and unknown steps, before anything is changed.
pub(super) fn refuse(plan: &[CommitStep]) -> Result<(), MountError> {
    for step in plan {
        let path = path_of(step)?;
        commit::split_last(path)?;
        if super::is_reserved_path(path) {
            return Err(MountError::ReservedName { path: path.to_owned() });
        }
        if let CommitStep::Symlink { target, escapes, .. } = step
            && (*escapes || can_escape(path, target))
        {
            return Err(MountError::LinkLeaves { path: path.to_owned(), target: target.to_string() });
        }
    }
    Ok(())
}

/// Returns `true` if the link could point outside the directory.
///
/// Rejects a `..` after a name, even if it looks harmless. The name may be another link to a directory closer to the
/// top, and the `..` would then resolve to a directory above it.
pub(crate) fn can_escape(path: &str, target: &str) -> bool {
    let depth = path.split('/').count() - 1;
    let mut names = target.split('/').filter(|n| !n.is_empty() && *n != ".");
    let ups = names.by_ref().take_while(|name| *name == "..").count();
    let climbs_later = names.any(|name| name == "..");
    target.is_empty() || target.starts_with('/') || target.contains('\0') || ups > depth || climbs_later
}

fn path_of(step: &CommitStep) -> Result<&str, MountError> {
    match step {
        CommitStep::DeleteFile { path, .. }
        | CommitStep::RemoveDir { path }
        | CommitStep::CreateDir { path }
        | CommitStep::WriteFile { path, .. }
        | CommitStep::Symlink { path, .. } => Ok(path),
        unknown => Err(unknown_step(unknown)),
    }
}

/// Returns the error for a step that this version does not support. The whole plan is rejected instead of being carried
/// out partially.
fn unknown_step(step: &CommitStep) -> MountError {
    MountError::UnknownStep { step: format!("{step:?}") }
}

/// The contents of a file that the guest wrote.
struct Source<'c> {
    contents: &'c mut Vfs,
    inode: InodeId,
    size_bytes: u64,
    path: &'c str,
}

/// A new entry to create in the private directory.
enum Item<'c> {
    Folder,
    File(Source<'c>),
    Link(&'c str),
}

pub(super) struct Stager<'s, 'a, 'p> {
    site: &'s mut CommitSite<'a>,
    /// The walker of the private directory.
    walker: Walker<'a>,
    /// Topmost new directories by path, with the indices of their steps. A whole new tree is built in the private
    /// directory and moved with one rename.
    tops: HashMap<&'p str, usize>,
    sync_each: bool,
    pub(super) steps: Vec<JournalStep>,
    pub(super) written: WrittenFiles,
}

impl<'s, 'a, 'p> Stager<'s, 'a, 'p> {
    pub(super) fn new(site: &'s mut CommitSite<'a>, plan: &[CommitStep]) -> Self {
        let is_new = |step: &&CommitStep| matches!(step, CommitStep::WriteFile { .. } | CommitStep::CreateDir { .. });
        let new_count = plan.iter().filter(is_new).count();
        let staging = site.staging;
        Self {
            site,
            walker: Walker::new(staging),
            tops: HashMap::new(),
            sync_each: new_count <= super::SYNC_EACH_COUNT,
            steps: Vec::new(),
            written: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, step: &'p CommitStep, contents: &mut Vfs) -> Result<(), MountError> {
        match step {
            // If the host removed the entry too, there is nothing to do.
            CommitStep::DeleteFile { path, base } => {
                let old = self.current(path, |ident| is_shown_file(ident, base.as_ref()))?;
                self.steps.extend(old.map(|old| JournalStep::Remove { path: path.clone(), old }));
                Ok(())
            }
            CommitStep::RemoveDir { path } => {
                let old = self.current(path, |ident| ident.kind == EntryKind::Folder)?;
                self.steps.extend(old.map(|old| JournalStep::RemoveFolder { path: path.clone(), old }));
                Ok(())
            }
            CommitStep::CreateDir { path } => self.put(path, None, Item::Folder),
            CommitStep::WriteFile { path, inode, size_bytes, base, .. } => {
                let source = Source { contents, inode: *inode, size_bytes: *size_bytes, path };
                self.put(path, base.as_ref(), Item::File(source))
            }
            CommitStep::Symlink { path, target, base, .. } => self.put(path, base.as_ref(), Item::Link(target)),
            unknown => Err(unknown_step(unknown)),
        }
    }

    /// Returns the host's entry at a path, or `None` if the host removed it. Fails with a conflict if the entry is not
    /// as expected.
    fn current(
        &mut self,
        path: &str,
        expected: impl Fn(&EntryIdentity) -> bool,
    ) -> Result<Option<EntryIdentity>, MountError> {
        match self.site.find(path)? {
            EntryAt::Nothing => Ok(None),
            EntryAt::Known(ident) if expected(&ident) => Ok(Some(ident)),
            _ => Err(MountError::conflict(path, Collision::Changed)),
        }
    }

    /// Returns the index of the step that creates the new tree around `path`. Also returns the names from the tree's
    /// top to the parent directory of `path`.
    fn tree_of(&self, path: &'p str) -> Option<(usize, Vec<&'p str>)> {
        path.match_indices('/').find_map(|(at, _)| {
            let (top, rest) = path.split_at_checked(at)?;
            let index = *self.tops.get(top)?;
            let mut names: Vec<&str> = rest.split('/').skip(1).collect();
            names.pop();
            Some((index, names))
        })
    }

    fn put(&mut self, path: &'p str, base: Option<&SourceStat>, item: Item<'_>) -> Result<(), MountError> {
        let index = self.steps.len();
        if let Some((top, names)) = self.tree_of(path) {
            if base.is_some() {
                return Err(MountError::conflict(path, Collision::Vanished));
            }
            let slot = new_slot(top);
            let names: Vec<&str> = std::iter::once(slot.as_str()).chain(names).collect();
            let (_, name) = commit::split_last(path)?;
            let folder = self.walker.enter(&names).map_err(MountError::io("stage", path))?;
            let ident = make(folder, name, path, item, None, self.sync_each)?;
            self.record_written(path, &ident);
            return Ok(());
        }
        let old = match base {
            None => None,
            Some(_) => {
                let old = self.current(path, |ident| is_shown_file(ident, base))?;
                Some(old.ok_or_else(|| MountError::conflict(path, Collision::Vanished))?)
            }
        };
        let staging = self.site.staging;
        let slot = new_slot(index);
        let new = make(staging, &slot, path, item, old.as_ref(), self.sync_each)?;
        self.record_written(path, &new);
        if new.kind == EntryKind::Folder {
            self.tops.insert(path, index);
        }
        let (path, new) = (path.to_owned(), new.without_change_time());
        self.steps.push(match old {
            Some(old) => JournalStep::Replace { path, old, new },
            None => JournalStep::Create { path, new, tree: None },
        });
        Ok(())
    }

    fn record_written(&mut self, path: &str, ident: &EntryIdentity) {
        // A directory's times change while entries are added, and commits do not compare them.
        if ident.kind != EntryKind::Folder {
            self.written.push((path.to_owned(), ident.source_stat()));
        }
    }

    /// Fingerprints the new trees and waits until all contents are on disk.
    pub(super) fn finish(&mut self) -> Result<(), MountError> {
        let staging = self.site.staging;
        for (index, step) in self.steps.iter_mut().enumerate() {
            if let JournalStep::Create { new, tree, .. } = step
                && new.kind == EntryKind::Folder
            {
                *tree = Some(commit::fingerprint(staging, &new_slot(index))?);
            }
        }
        let failed = || MountError::io("sync", self.site.staging_name);
        // With few new entries, each file was synced when it was written.
        if self.sync_each {
            commit::sync_folders(staging).map_err(failed())?;
        } else if !staging.sync_file_system().map_err(failed())? {
            commit::sync(staging).map_err(failed())?;
        }
        staging.sync().map_err(failed())?;
        self.site.root.sync().map_err(failed())
    }
}

/// Returns `true` if the host's entry is a file or link in the state that the guest saw.
fn is_shown_file(ident: &EntryIdentity, base: Option<&SourceStat>) -> bool {
    ident.kind != EntryKind::Folder && base.is_none_or(|base| ident.source_stat() == *base)
}

/// Creates a new entry. A file that replaces an existing file gets the old file's mode and, if permitted, its owner.
fn make(
    folder: &Folder,
    name: &str,
    path: &str,
    item: Item<'_>,
    old: Option<&EntryIdentity>,
    sync: bool,
) -> Result<EntryIdentity, MountError> {
    let failed = || MountError::io("stage", path);
    match item {
        Item::Folder => folder.create_folder(name, 0o777).map_err(failed())?,
        Item::Link(target) => folder.create_link(name, target).map_err(failed())?,
        Item::File(source) => {
            let mut file = folder.create_file(name, 0o666).map_err(failed())?;
            copy(source, &mut file)?;
            if let Some(old) = old.filter(|old| old.kind == EntryKind::File) {
                // Only the superuser may change the owner. If this fails, the file belongs to this process's user.
                let (user, group) = old.owner;
                let _ = fchown(&file, Some(user), Some(group));
                file.set_permissions(Permissions::from_mode(old.mode)).map_err(failed())?;
            }
            if sync {
                file.sync_all().map_err(failed())?;
            }
        }
    }
    let made = folder.find(name).map_err(failed())?.into_identity();
    made.ok_or_else(|| failed()(io::ErrorKind::NotFound.into()))
}

fn copy(source: Source<'_>, file: &mut File) -> Result<(), MountError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0_u64;
    let path = source.path;
    let unread = |source| MountError::Contents { path: path.to_owned(), source };
    while at < source.size_bytes {
        let left = usize::try_from(source.size_bytes - at).unwrap_or(BUFFER_BYTES);
        let wanted = buffer.get_mut(..left.min(BUFFER_BYTES)).unwrap_or_default();
        let count = source.contents.read_at(source.inode, at, wanted).map_err(unread)?;
        // An empty read means that a lazily read host file was truncated.
        let read = wanted.get(..count).filter(|read| !read.is_empty()).ok_or_else(|| unread(VfsError::Io))?;
        file.write_all(read).map_err(MountError::io("stage", path))?;
        at += u64::try_from(count).unwrap_or(u64::MAX);
    }
    Ok(())
}
