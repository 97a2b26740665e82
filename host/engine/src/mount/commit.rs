//! Commits a guest's writes to a host directory atomically, tracks a session's commits, and fingerprints and syncs new
//! trees.

use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use glovebox_vfs::{CommitStep, FileKind, MountSource, RootId, SourceStat, Vfs, VfsLimits};
use sha2::{Digest as _, Sha256};

use super::{
    directory::HostDirectory,
    error::MountError,
    folder::{EntryAt, EntryIdentity, EntryKind, Folder, is_single_name},
    journal::{Journal, JournalStep},
    recover::{self, Lock},
    site::CommitSite,
    stage::{self, Stager},
};

/// The new and changed files and links of a commit: their relative paths, and the states that the next commit compares
/// with the host.
pub(crate) type WrittenFiles = Vec<(String, SourceStat)>;

impl HostDirectory {
    /// Like [`commit`](Self::commit), but fails with [`MountError::TooLarge`] if the commit would write more to the host
    /// than the workspace's quotas allow.
    ///
    /// The quotas apply to the guest's own writes. However, a commit writes a file once for each of its hard links, and
    /// writes a renamed host file again. A thousand links to one file, or a renamed directory, could write a thousand
    /// times the quota.
    pub(crate) fn commit_within_quotas(&self, plan: &[CommitStep], vfs: &mut Vfs) -> Result<WrittenFiles, MountError> {
        let (mut files, mut bytes) = (0_u64, 0_u64);
        for step in plan {
            if let CommitStep::WriteFile { size_bytes, .. } = step {
                files = files.saturating_add(1);
                bytes = bytes.saturating_add(*size_bytes);
            }
        }
        let VfsLimits { bytes: max_bytes, inodes: max_files, .. } = *vfs.limits();
        if files > max_files || bytes > max_bytes {
            return Err(MountError::TooLarge { files, max_files, bytes, max_bytes });
        }
        self.commit(plan, vfs)
    }

    /// Carries out a commit plan. If this returns `Ok`, all changes are on disk. If it fails, the directory is
    /// unchanged unless [`MountError`] says otherwise.
    ///
    /// Waits for other commits to the same directory, for at most the `lock_wait` of
    /// [`open_for_writing`](Self::open_for_writing). Then finishes or undoes commits that a crash interrupted. An empty
    /// plan does nothing.
    ///
    /// # Errors
    ///
    /// [`MountError::Conflict`] if the host has changed one of the files since the guest saw it.
    /// [`MountError::LinkLeaves`] if a link could point outside the directory. [`MountError::ReservedName`] if a path
    /// contains a reserved name. [`MountError::Busy`] if another commit takes too long. Other errors, such as
    /// [`MountError::Io`], if an operation fails.
    pub(crate) fn commit(&self, plan: &[CommitStep], contents: &mut Vfs) -> Result<WrittenFiles, MountError> {
        if !self.is_writable() {
            return Err(MountError::ReadOnly { path: self.path().to_owned() });
        }
        if plan.is_empty() {
            return Ok(WrittenFiles::new());
        }
        self.check_guarded()?;
        stage::refuse(plan)?;
        let root = self.root();
        let _lock = Lock::take(root, self.path(), self.lock_wait())?;
        recover::run(root, self.path())?;

        let (name, staging) = recover::make_staging(root)?;
        let mut site = CommitSite::new(root, &staging, &name);
        let (journal, mut written) = match prepare(&mut site, plan, contents) {
            Ok(prepared) => prepared,
            Err(error) => {
                discard(&site);
                return Err(error);
            }
        };
        // If undoing fails after this point, the journal remains for the next recovery.
        let undone = site.carry_out(&journal.steps)?;
        if undone.is_none() {
            update_states(&mut site, &journal.steps, &mut written);
        }
        discard(&site);
        undone.map_or(Ok(written), Err)
    }
}

/// Prepares a commit, including its journal, without changing any of the user's files.
pub(super) fn prepare(
    site: &mut CommitSite<'_>,
    plan: &[CommitStep],
    contents: &mut Vfs,
) -> Result<(Journal, WrittenFiles), MountError> {
    let mut stager = Stager::new(site, plan);
    for step in plan {
        stager.add(step, contents)?;
    }
    stager.finish()?;
    let (mut steps, written) = (std::mem::take(&mut stager.steps), std::mem::take(&mut stager.written));
    // Check after staging, which can take a long time, to keep the time between the check and the changes short.
    site.check(&steps)?;
    site.save_replaced(&mut steps)?;
    let inode = |folder: &Folder| {
        let both = folder.device_and_inode();
        both.map(|(_, inode)| inode).map_err(MountError::io("inspect", "."))
    };
    let journal = Journal { root: inode(site.root)?, staging: inode(site.staging)?, steps };
    journal.write(site.staging)?;
    Ok((journal, written))
}

/// Updates the reported states, because moving a file to its path changes the file's change time. If the host has
/// changed a file in the meantime, keeps its old state, so that the next commit conflicts.
fn update_states(site: &mut CommitSite<'_>, steps: &[JournalStep], written: &mut [(String, SourceStat)]) {
    let moved = steps.iter().filter_map(|step| match step {
        JournalStep::Create { path, new, .. } | JournalStep::Replace { path, new, .. } => Some((path.as_str(), new)),
        JournalStep::Remove { .. } | JournalStep::RemoveFolder { .. } => None,
    });
    let moved: HashMap<&str, &EntryIdentity> = moved.collect();
    for (path, stat) in written {
        if let Some(new) = moved.get(path.as_str())
            && let Ok(EntryAt::Known(now)) = site.find(path)
            && now.is_unchanged(new)
        {
            *stat = now.source_stat();
        }
    }
}

/// Removes the private directory. The commit's outcome is already decided, so a failure is only logged. The next
/// recovery removes the remaining files.
fn discard(site: &CommitSite<'_>) {
    if let Err(error) = recover::remove_staging(site.root, site.staging_name) {
        tracing::warn!(
            staging = site.staging_name,
            error = &error as &dyn std::error::Error,
            "could not remove a commit's private directory"
        );
    }
}

/// Maximum size of the tracked paths, in bytes. If the limit is exceeded, all paths are dropped. After a rollback,
/// files that the session itself wrote then conflict like files of other programs. The limit is necessary because
/// scripts choose how many files they write.
const MAX_PATH_BYTES: usize = 4 << 20;

/// The state in which a session's commits left each path, back to the oldest checkpoint.
///
/// A checkpoint can contain uncommitted changes and the host state that they are based on. If the session commits after
/// the checkpoint and then rolls back, it finds its own files on the host. These files are not conflicts: the
/// checkpoint's changes are committed over them.
///
/// The rule applies only while the host still has exactly the committed state. A file that became a directory, or a
/// directory that became a file, remains a conflict.
#[derive(Debug, Default)]
pub(crate) struct SessionCommits {
    left: BTreeMap<RootId, BTreeMap<String, CommittedState>>,
    path_bytes: usize,
    count: u64,
    known: u64,
}

#[derive(Debug)]
struct CommittedState {
    /// The number of the commit that left this state.
    by: u64,
    what: CommittedEntry,
}

#[derive(Debug)]
enum CommittedEntry {
    /// A file or a link.
    File(SourceStat),
    Folder,
    Nothing,
}

impl SessionCommits {
    /// Returns the number of commits so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of commits whose changes the session's files include: all of them, or fewer after a rollback
    /// or a partial commit.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }

    /// Records a rollback to files that include the first `known` commits.
    pub(crate) fn rolled_back_to(&mut self, known: u64) {
        self.known = known;
    }

    /// Records the end of a commit. `whole` is `true` if the commit covered all uncommitted changes. Drops the paths of
    /// commits whose changes are in the session's files and in all checkpoints. `oldest` is the number of commits whose
    /// changes the oldest checkpoint includes.
    pub(crate) fn record_commit(&mut self, whole: bool, oldest: Option<u64>) {
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

    /// Records the changes of a running commit in one host directory. `written` contains the new states of files and
    /// links.
    pub(crate) fn note(&mut self, root: RootId, plan: &[CommitStep], written: &[(String, SourceStat)]) {
        let steps = plan.iter().filter_map(|step| match step {
            CommitStep::DeleteFile { path, .. } | CommitStep::RemoveDir { path } => {
                Some((path, CommittedEntry::Nothing))
            }
            CommitStep::CreateDir { path } => Some((path, CommittedEntry::Folder)),
            _ => None,
        });
        let by = self.count + 1;
        let paths = self.left.entry(root).or_default();
        for (path, what) in steps.chain(written.iter().map(|(path, stat)| (path, CommittedEntry::File(*stat)))) {
            if paths.insert(path.clone(), CommittedState { by, what }).is_none() {
                self.path_bytes = self.path_bytes.saturating_add(path.len());
            }
        }
        if self.path_bytes > MAX_PATH_BYTES {
            self.left.clear();
            self.path_bytes = 0;
        }
    }

    /// Adjusts a commit plan so that files that the session itself committed cause no conflicts.
    pub(crate) fn rebased(&self, root: RootId, host: &dyn MountSource, plan: Vec<CommitStep>) -> Vec<CommitStep> {
        match self.left.get(&root) {
            Some(paths) if !paths.is_empty() => {
                plan.into_iter().filter_map(|step| rebased_step(paths, host, step)).collect()
            }
            _ => plan,
        }
    }
}

/// Adjusts one step of a plan. Returns `None` for a directory that an earlier commit of the session created and that
/// still exists.
fn rebased_step(
    paths: &BTreeMap<String, CommittedState>,
    host: &dyn MountSource,
    mut step: CommitStep,
) -> Option<CommitStep> {
    let left = |path: &str| paths.get(path).map(|left| &left.what);
    match &mut step {
        CommitStep::CreateDir { path } => {
            let is_ours = matches!(left(path), Some(CommittedEntry::Folder));
            if is_ours && matches!(host.stat(path), Ok(Some(stat)) if stat.kind == FileKind::Directory) {
                return None;
            }
        }
        // If the session itself removed the path, the step needs no change.
        CommitStep::DeleteFile { path, .. } if matches!(left(path), Some(CommittedEntry::Nothing)) => {}
        CommitStep::DeleteFile { path, base }
        | CommitStep::WriteFile { path, base, .. }
        | CommitStep::Symlink { path, base, .. } => match left(path) {
            // Compares with the host last: the guest's files usually already have the committed state, in which case no
            // lookup is needed.
            Some(CommittedEntry::File(ours)) if *base != Some(*ours) && host.stat(path) == Ok(Some(*ours)) => {
                *base = Some(*ours);
            }
            Some(CommittedEntry::Nothing) if base.is_some() && host.stat(path) == Ok(None) => *base = None,
            _ => {}
        },
        _ => {}
    }
    Some(step)
}

// Traversal, fingerprints and syncing of new trees.
//
// Fingerprints prevent an undo from discarding files that the host added. On systems that cannot sync a whole file
// system, trees are synced file by file. Directories are opened by relative path, without following links and without
// recursion.

/// An entry in a tree.
struct Entry<'a> {
    folder: &'a Folder,
    /// The names of the ancestor directories below `top`, topmost first.
    path: &'a [String],
    name: &'a str,
    ident: EntryIdentity,
}

/// Calls `show` for each entry below `top`, in no particular order and without recursion. Returns the number of
/// entries. The number includes entries of types that commits never write, which are not shown.
fn visit(top: &Folder, mut show: impl FnMut(Entry<'_>) -> io::Result<()>) -> io::Result<u64> {
    let mut walker = Walker::new(top);
    let mut pending: Vec<Vec<String>> = vec![Vec::new()];
    let mut count = 0_u64;
    while let Some(path) = pending.pop() {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let folder = walker.enter(&names)?;
        for name in folder.names()? {
            count += 1;
            let Some(name) = name? else { continue };
            let EntryAt::Known(ident) = folder.find(&name)? else {
                continue;
            };
            show(Entry { folder, path: &path, name: &name, ident })?;
            if ident.kind == EntryKind::Folder {
                let mut below = path.clone();
                below.push(name);
                pending.push(below);
            }
        }
    }
    Ok(count)
}

/// Fingerprints the tree below the directory `name`: the path and identity of each entry, combined independently of the
/// listing order.
pub(super) fn fingerprint(parent: &Folder, name: &str) -> Result<String, MountError> {
    let failed = || MountError::io("list", name);
    let top = parent.child(name).map_err(failed())?;
    let mut sum = [0_u8; 32];
    let count = visit(&top, |entry| {
        let mut hasher = Sha256::new();
        for name in entry.path {
            hasher.update(name);
            hasher.update([0]);
        }
        hasher.update(entry.name);
        hasher.update([0]);
        hasher.update(entry.ident.inode.to_le_bytes());
        if entry.ident.kind != EntryKind::Folder {
            hasher.update(entry.ident.size_bytes.to_le_bytes());
            hasher.update(entry.ident.modified_s.to_le_bytes());
            hasher.update(entry.ident.modified_ns.to_le_bytes());
        }
        for (total, byte) in sum.iter_mut().zip(hasher.finalize()) {
            *total ^= byte;
        }
        Ok(())
    });
    let mut whole = sum.to_vec();
    whole.extend_from_slice(&count.map_err(failed())?.to_le_bytes());
    Ok(glovebox_runtimes::Digest::of(&whole).to_string())
}

/// Syncs every file and directory below `top`.
pub(super) fn sync(top: &Folder) -> io::Result<()> {
    visit(top, |entry| match entry.ident.kind {
        EntryKind::File => entry.folder.open_file(entry.name)?.0.sync_all(),
        EntryKind::Folder => entry.folder.child(entry.name)?.sync(),
        EntryKind::Link => Ok(()),
    })
    .map(|_| ())
}

/// Syncs every directory below `top`.
pub(super) fn sync_folders(top: &Folder) -> io::Result<()> {
    visit(top, |entry| match entry.ident.kind {
        EntryKind::Folder => entry.folder.child(entry.name)?.sync(),
        EntryKind::File | EntryKind::Link => Ok(()),
    })
    .map(|_| ())
}

/// The number of directory levels for which a walker keeps one open handle. Going back up in a deep tree takes at most
/// `STRIDE` lookups. At most [`MAX_DEPTH`] / `STRIDE` + 1 descriptors are open.
const STRIDE: usize = 32;

/// Maximum depth of a directory. With [`STRIDE`], a walker holds about 128 descriptors, far below the usual limit of
/// 1,024.
const MAX_DEPTH: usize = 4096;

/// Splits a path relative to the mount into its names. `""` and `"."` refer to the mount itself.
pub(super) fn split(path: &str) -> Result<Vec<&str>, MountError> {
    if path.is_empty() || path == "." {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = path.split('/').take(MAX_DEPTH + 1).collect();
    if names.len() > MAX_DEPTH {
        return Err(MountError::TooDeep { path: path.to_owned(), limit: MAX_DEPTH });
    }
    if names.iter().all(|name| is_single_name(name)) {
        Ok(names)
    } else {
        Err(MountError::InvalidPath { path: path.to_owned() })
    }
}

/// Splits a path into the names of its parent directory and its last name. Fails for the mount itself, which has no
/// name.
pub(super) fn split_last(path: &str) -> Result<(Vec<&str>, &str), MountError> {
    let mut names = split(path)?;
    match names.pop() {
        Some(last) => Ok((names, last)),
        None => Err(MountError::InvalidPath { path: path.to_owned() }),
    }
}

/// A walker of the directories below a root, which caches handles along the current path.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    root: &'a Folder,
    /// Open directories on the path to `at`, with their depths. The last directory is `at` itself.
    open: Vec<(usize, Folder)>,
    at: Vec<String>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(root: &'a Folder) -> Self {
        Self { root, open: Vec::new(), at: Vec::new() }
    }

    /// Opens the directory at the path that consists of `names`.
    pub(super) fn enter(&mut self, names: &[&str]) -> io::Result<&Folder> {
        let common = self.at.iter().zip(names).take_while(|(have, want)| have == *want).count();
        while self.open.last().is_some_and(|(depth, _)| *depth > common) {
            self.open.pop();
        }
        self.at.truncate(common);
        let mut depth = self.open.last().map_or(0, |(depth, _)| *depth);
        self.at.truncate(depth);
        for name in names.iter().skip(depth) {
            let next = self.open.last().map_or(self.root, |(_, f)| f).child(name)?;
            if !depth.is_multiple_of(STRIDE) {
                self.open.pop();
            }
            depth += 1;
            self.open.push((depth, next));
            self.at.push((*name).to_owned());
        }
        Ok(self.open.last().map_or(self.root, |(_, folder)| folder))
    }

    /// Closes all handles except the root's, because directories may have been moved.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.at.clear();
    }
}
