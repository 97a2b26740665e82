//! A guest's files: the workspace at `/app`, the mounts, and commits of changes to the host.

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use glovebox_core::{LIBRARY_PATH, Library, LibraryMount, PACKAGES_PATH, SCRATCH, WORKSPACE};
use glovebox_interpreters::library;
use glovebox_vfs::{Access, MountSource, RootId, Vfs, escaped};
use glovebox_wasi::Wasi;

use crate::{
    BuildError, Commit, ExecuteError, Policy,
    mount::{DEFAULT_LOCK_WAIT, HostDirectory, MountError, commit::SessionCommits},
};

/// A host directory that is mounted at a guest path.
#[derive(Clone)]
struct MountedDirectory {
    guest: String,
    host: PathBuf,
    directory: Arc<HostDirectory>,
    read_only: bool,
}

/// The JavaScript library, shared by all guests in the process.
static SHARED_LIBRARY: LazyLock<Arc<dyn MountSource>> = LazyLock::new(|| Arc::new(Library(LazyLock::new(library))));

/// The initial files of each execution under a policy.
#[derive(Clone)]
pub(crate) struct Workspace {
    /// The file system without the mounts of host directories. The mounts are added to each execution's clone, so that
    /// each execution sees the current state of the host.
    vfs: Vfs,
    /// The root of the in-memory workspace. `None` if the workspace is a host directory.
    root: Option<RootId>,
    /// The guest directories that Glovebox itself provides, with their roots: the JavaScript library, the Python
    /// packages, the standard library and the scratch directory.
    provided: Vec<(String, RootId)>,
    mounted: Vec<MountedDirectory>,
    pub(crate) path: Option<PathBuf>,
    commit: Commit,
}

/// The guest paths and roots of a guest's file system, the workspace first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots(pub(crate) Vec<(String, RootId)>);

impl Roots {
    pub(crate) fn of(wasi: &Wasi) -> Self {
        Self(wasi.mounts().iter().map(|mount| (mount.path.clone(), mount.root)).collect())
    }

    /// Returns the root of `/app`.
    pub(crate) fn workspace(&self) -> Option<RootId> {
        self.0.iter().find(|(guest, _)| guest == WORKSPACE).map(|(_, root)| *root)
    }
}

/// The initial files of an execution or a session.
#[derive(Clone)]
pub(crate) struct GuestFiles {
    pub(crate) vfs: Vfs,
    pub(crate) roots: Roots,
}

impl GuestFiles {
    /// Adds a read-only directory that contains a plain command's script.
    pub(crate) fn add_script(&mut self, guest: &str, name: &str, source: &[u8]) -> Result<(), ExecuteError> {
        let root = self.vfs.add_root(Access::ReadWrite);
        self.vfs.write_file(root, name, source).map_err(|error| ExecuteError::Instantiate {
            reason: format!("the script could not be written to the guest's files: {error}"),
        })?;
        self.vfs.set_access(root, Access::ReadOnly);
        self.roots.0.push((guest.to_owned(), root));
        Ok(())
    }
}

/// Returns `true` if the guest paths are equal or one is an ancestor of the other.
pub(crate) fn paths_overlap(one: &str, other: &str) -> bool {
    let (one, other) = (format!("{one}/"), format!("{other}/"));
    one.starts_with(&other) || other.starts_with(&one)
}

impl Workspace {
    /// Opens the policy's host directories and adds `files` to the workspace.
    pub(crate) fn open(
        policy: &Policy,
        files: &[(String, Vec<u8>)],
        packages: Option<Arc<dyn MountSource>>,
        standard_library: Option<&LibraryMount>,
    ) -> Result<Self, BuildError> {
        let mut vfs = Vfs::new(policy.limits.vfs());
        let mut mounted = Vec::new();
        let mut root = None;
        match &policy.workspace {
            Some(host) => {
                // No write permission is needed if changes are discarded.
                let read = policy.commit == Commit::Never;
                let directory = open_directory(host, read)?;
                mounted.push(MountedDirectory {
                    guest: WORKSPACE.into(),
                    host: host.clone(),
                    directory,
                    read_only: false,
                });
            }
            None => root = Some(vfs.add_root(Access::ReadWrite)),
        }
        // A mount of the policy replaces the library or the scratch directory if their paths overlap.
        let is_free = |guest: &str| !policy.mounts.iter().any(|mount| paths_overlap(&mount.guest, guest));
        let library = is_free(LIBRARY_PATH).then(|| (LIBRARY_PATH.to_owned(), Arc::clone(&SHARED_LIBRARY)));
        let packages = packages.map(|packages| (PACKAGES_PATH.to_owned(), packages));
        let standard_library = standard_library.map(|library| (library.directory.clone(), Arc::clone(&library.source)));
        let mut provided = Vec::new();
        for (guest, source) in [library, packages, standard_library].into_iter().flatten() {
            provided.extend(vfs.add_mount(source, Access::ReadOnly).ok().map(|root| (guest, root)));
        }
        if is_free(SCRATCH) {
            provided.push((SCRATCH.to_owned(), vfs.add_root(Access::ReadWrite)));
        }
        for mount in &policy.mounts {
            mounted.push(MountedDirectory {
                guest: mount.guest.clone(),
                host: mount.host.clone(),
                directory: open_directory(&mount.host, mount.read_only || policy.commit == Commit::Never)?,
                read_only: mount.read_only,
            });
        }
        for (path, bytes) in files {
            let wrong = |reason: String| BuildError::File { path: path.clone(), reason };
            let root = root.ok_or_else(|| wrong("the workspace is a host directory; put the file there".into()))?;
            vfs.write_file(root, path, bytes).map_err(|error| wrong(error.reason.to_string()))?;
        }
        Ok(Self { vfs, root, provided, mounted, path: policy.workspace.clone(), commit: policy.commit })
    }

    /// Returns a copy that commits no changes to host directories.
    pub(crate) fn without_commits(&self) -> Self {
        Self { commit: Commit::Never, ..self.clone() }
    }

    /// Returns the initial files of a new execution or session.
    pub(crate) fn files(&self) -> Result<GuestFiles, ExecuteError> {
        let mut vfs = self.vfs.clone();
        let mut roots: Vec<_> = self.root.map(|root| (WORKSPACE.to_owned(), root)).into_iter().collect();
        for mounted in &self.mounted {
            mounted.directory.check_guarded()?;
            let access = if mounted.read_only { Access::ReadOnly } else { Access::ReadWrite };
            let source = Arc::clone(&mounted.directory) as Arc<dyn MountSource>;
            let root = vfs.add_mount(source, access).map_err(|error| ExecuteError::Instantiate {
                reason: format!("`{}` cannot be mounted at `{}`: {error}", escaped(&mounted.host), mounted.guest),
            })?;
            roots.push((mounted.guest.clone(), root));
        }
        roots.extend(self.provided.iter().cloned());
        vfs.mark();
        Ok(GuestFiles { vfs, roots: Roots(roots) })
    }

    /// Commits an execution's changes to the host directories, as the policy requires. Stops at the first failure.
    /// `own` records the session's commits, so that later commits of the session do not conflict with them.
    pub(crate) fn commit(
        &self,
        vfs: &mut Vfs,
        roots: &Roots,
        succeeded: bool,
        mut own: Option<&mut SessionCommits>,
    ) -> CommitResult {
        let mut committed = CommitResult::default();
        match self.commit {
            Commit::Always => {}
            Commit::OnSuccess if succeeded => {}
            Commit::OnSuccess | Commit::Never => return committed,
        }
        for mounted in self.mounted.iter().filter(|mounted| !mounted.read_only) {
            let Some((_, root)) = roots.0.iter().find(|(guest, _)| *guest == mounted.guest) else { continue };
            match commit_root(&mounted.directory, vfs, *root, own.as_deref_mut()) {
                Ok(any) => committed.any |= any,
                Err(error) => {
                    committed.any |= matches!(error, MountError::NotNoted { .. });
                    committed.failed = Some((mounted.host.clone(), error));
                    break;
                }
            }
        }
        committed
    }
}

/// The result of committing an execution's changes.
#[derive(Debug, Default)]
pub(crate) struct CommitResult {
    /// `true` if at least one host directory had changes and they were committed.
    pub(crate) any: bool,
    /// The first host directory that could not be committed to, and the error.
    pub(crate) failed: Option<(PathBuf, MountError)>,
}

impl CommitResult {
    /// Returns `Some(true)` if all changes were committed, `Some(false)` if only some were, and `None` if none were or
    /// there were no changes.
    pub(crate) fn all_committed(&self) -> Option<bool> {
        self.any.then_some(self.failed.is_none())
    }
}

/// Commits a root. Returns `true` if there were changes.
fn commit_root(
    directory: &HostDirectory,
    vfs: &mut Vfs,
    root: RootId,
    own: Option<&mut SessionCommits>,
) -> Result<bool, MountError> {
    let plan = vfs.commit_plan(root);
    let plan = match &own {
        Some(own) => own.rebased(root, directory, plan),
        None => plan,
    };
    let written = directory.commit_within_quotas(&plan, vfs)?;
    if let Some(own) = own {
        own.note(root, &plan, &written);
    }
    vfs.mark_committed(root, written).map_err(|source| MountError::NotNoted { source })?;
    Ok(!plan.is_empty())
}

fn open_directory(host: &std::path::Path, read_only: bool) -> Result<Arc<HostDirectory>, MountError> {
    Ok(Arc::new(if read_only {
        HostDirectory::open(host)?
    } else {
        HostDirectory::open_for_writing(host, DEFAULT_LOCK_WAIT)?
    }))
}
