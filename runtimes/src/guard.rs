//! Guarded directories, which no guest can access. The most important guarded directory is the cache, because loading a
//! prepared image runs its code.
//!
//! The list of guarded directories belongs to the process, not to an engine. A mount in one engine must not reach
//! another engine's cache, or a session store that is opened later. Before giving a guest a host directory, call
//! [`overlaps`]. Repeat the call when [`generation`] has changed.
//!
//! The check compares the device and inode numbers of a directory and all its ancestors, never their names. Symbolic
//! links, names in a different case, and bind mounts of a parent directory therefore do not bypass the check.
//! [`is_guarded`] recognizes a guarded directory without examining its ancestors. This detects a guarded directory
//! that was moved or bind-mounted into a mounted directory.
//!
//! The check does not detect a bind mount of a directory *inside* a guarded directory, unless this process has opened
//! the inner directory. Creating such a mount requires administrator rights or a private mount namespace.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use rustix::fs::{Mode, OFlags};

/// Maximum number of ancestors. A path of `PATH_MAX` bytes has at most 2,048 components.
const MAX_DEPTH: usize = 4096;
/// Number of consecutive times that a directory must equal its own parent to count as the root. A bind mount of a
/// directory onto one of its own subdirectories equals its parent once.
const MAX_EQUAL: usize = 8;

static GUARDED: RwLock<Vec<Weak<Entry>>> = RwLock::new(Vec::new());
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A kind of guarded directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardedDirectory {
    /// Binaries and prepared images.
    Cache,
    /// Seals of prepared images.
    Seals,
    /// Packages that the user installed.
    Packages,
    /// Images that the user built or imported.
    Images,
    /// Stored sessions.
    Sessions,
    /// Directories that the embedding program guards, such as the command's state directory.
    Private,
}

impl GuardedDirectory {
    /// Returns advice on how to move the guarded directory.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Cache => "keep the cache elsewhere (`--cache-dir`, `XDG_CACHE_HOME`)",
            Self::Seals => "keep the seals elsewhere (`XDG_DATA_HOME`)",
            Self::Packages => "keep the packages elsewhere (`XDG_STATE_HOME`)",
            Self::Images => "keep the images elsewhere (`XDG_STATE_HOME`)",
            Self::Sessions => "keep the sessions elsewhere (`--store`, `XDG_STATE_HOME`)",
            Self::Private => "keep the state elsewhere (`XDG_STATE_HOME`)",
        }
    }
}

impl fmt::Display for GuardedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "the cache of prepared images",
            Self::Seals => "the seals of prepared images",
            Self::Packages => "the packages directory",
            Self::Images => "the images directory",
            Self::Sessions => "the session store",
            Self::Private => "Glovebox's own state",
        })
    }
}

/// The identity of a directory, which does not depend on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryId {
    /// The device number of the file system.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// The identities of a directory and its ancestors, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage(Vec<DirectoryId>);

impl Lineage {
    /// Collects the identities of an open directory and its ancestors.
    ///
    /// # Errors
    /// Fails if an ancestor cannot be opened, or if the directory has more than 4,096 ancestors.
    pub fn of(dir: impl AsFd) -> io::Result<Self> {
        let top = id(&open(Path::new("/"))?)?;
        let mut ids = vec![id(&dir)?];
        let mut at = open_parent(&dir)?;
        let mut equal = 0;
        while ids.last() != Some(&top) && equal < MAX_EQUAL {
            if ids.len() > MAX_DEPTH {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let next = id(&at)?;
            if ids.last() == Some(&next) {
                equal += 1;
            } else {
                equal = 0;
                ids.push(next);
            }
            at = open_parent(&at)?;
        }
        Ok(Self(ids))
    }

    fn own(&self) -> Option<&DirectoryId> {
        self.0.first()
    }

    fn has(&self, id: &DirectoryId) -> bool {
        self.0.contains(id)
    }
}

/// The relation of a directory to a guarded directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The two directories are the same.
    Is,
    /// The directory contains the guarded directory.
    Contains,
    /// The directory is inside the guarded directory.
    Inside,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Is => "is",
            Self::Contains => "contains",
            Self::Inside => "is inside",
        })
    }
}

/// An overlap between a directory and a guarded directory. A guest must not be given the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The relation to the guarded directory.
    pub relation: Relation,
    /// The kind of the guarded directory.
    pub guarded: GuardedDirectory,
    /// The path of the guarded directory.
    pub path: PathBuf,
}

#[derive(Debug)]
struct Entry {
    guarded: GuardedDirectory,
    path: PathBuf,
    /// `None` for a directory that is guarded by path and might not exist yet. The path is resolved at each check.
    opened: Option<OpenedDirectory>,
}

#[derive(Debug)]
struct OpenedDirectory {
    lineage: Lineage,
    /// The identity of the directory, and of directories inside it that this process opened.
    ids: Mutex<Vec<DirectoryId>>,
}

/// A handle that keeps a directory guarded until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Entry>);

impl Guard {
    /// Guards an open directory.
    ///
    /// # Errors
    /// Fails if an ancestor cannot be opened, or if the directory has more than 4,096 ancestors.
    pub fn opened(guarded: GuardedDirectory, path: &Path, dir: impl AsFd) -> io::Result<Self> {
        let lineage = Lineage::of(dir)?;
        let ids = Mutex::new(lineage.own().copied().into_iter().collect());
        Ok(Self::add(Entry { guarded, path: path.to_owned(), opened: Some(OpenedDirectory { lineage, ids }) }))
    }

    /// Guards the current or future directory at a path.
    pub fn named(guarded: GuardedDirectory, path: &Path) -> Self {
        Self::add(Entry { guarded, path: path.to_owned(), opened: None })
    }

    fn add(entry: Entry) -> Self {
        let entry = Arc::new(entry);
        let mut list = GUARDED.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|other| other.strong_count() > 0);
        list.push(Arc::downgrade(&entry));
        GENERATION.fetch_add(1, Ordering::Release);
        Self(entry)
    }

    /// Also guards a directory inside the guarded directory.
    pub(crate) fn add_child(&self, dir: impl AsFd) -> io::Result<()> {
        let Some(opened) = &self.0.opened else { return Ok(()) };
        let id = id(&dir)?;
        let mut ids = opened.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if !ids.contains(&id) {
            ids.push(id);
            GENERATION.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

impl Entry {
    fn relation_of(&self, lineage: &Lineage) -> Option<Relation> {
        let own = lineage.own()?;
        let looked_up;
        let (ours, exists) = match &self.opened {
            Some(opened) => (&opened.lineage, true),
            None => {
                let (dir, exists) = open_nearest(&self.path)?;
                looked_up = Lineage::of(dir).ok()?;
                (&looked_up, exists)
            }
        };
        if exists && ours.own() == Some(own) {
            return Some(Relation::Is);
        }
        if ours.has(own) {
            return Some(Relation::Contains);
        }
        let is_inside = match &self.opened {
            Some(opened) => opened.ids.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|id| lineage.has(id)),
            None => exists && ours.own().is_some_and(|id| lineage.has(id)),
        };
        is_inside.then_some(Relation::Inside)
    }
}

/// Returns a number that changes whenever a directory becomes guarded.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Returns the guarded directories that a directory equals, contains or is inside. A guest must not be given a
/// directory that has overlaps.
pub fn overlaps(lineage: &Lineage) -> impl Iterator<Item = Overlap> + use<> {
    let list: Vec<_> =
        GUARDED.read().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    let lineage = lineage.clone();
    list.into_iter().filter_map(move |entry| {
        let relation = entry.relation_of(&lineage)?;
        Some(Overlap { relation, guarded: entry.guarded, path: entry.path.clone() })
    })
}

/// Returns `true` for a guarded directory that this process has open, and for its subdirectories that this process
/// opened.
pub fn is_guarded(id: DirectoryId) -> bool {
    let list = GUARDED.read().unwrap_or_else(PoisonError::into_inner);
    list.iter().filter_map(Weak::upgrade).any(|entry| {
        let ids = entry.opened.as_ref().map(|opened| opened.ids.lock().unwrap_or_else(PoisonError::into_inner));
        ids.is_some_and(|ids| ids.contains(&id))
    })
}

/// Opens the directory at a path, or its nearest existing ancestor. Returns `true` if `path` itself was opened.
fn open_nearest(path: &Path) -> Option<(OwnedFd, bool)> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().enumerate().find_map(|(up, path)| Some((open(path).ok()?, up == 0)))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, flags(), Mode::empty())?)
}

fn open_parent(dir: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, "..", flags(), Mode::empty())?)
}

/// Returns the flags for opening a directory. On Linux, the directory need not be readable, only traversable.
fn flags() -> OFlags {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let look = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let look = OFlags::RDONLY;
    look | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn id(dir: impl AsFd) -> io::Result<DirectoryId> {
    let stat = rustix::fs::fstat(dir)?;
    // The field types differ between systems.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "they are u64 on some systems and i32 on others"
    )]
    Ok(DirectoryId { device: stat.st_dev as u64, inode: stat.st_ino as u64 })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{Guard, GuardedDirectory, Lineage, Relation, generation, is_guarded, open, overlaps};

    fn lineage(path: &std::path::Path) -> Lineage {
        Lineage::of(open(path).unwrap()).unwrap()
    }

    /// Returns the relation of `path` to the guarded directory `ours`. Ignores directories that other tests guard.
    fn relation(path: &std::path::Path, ours: &std::path::Path) -> Option<Relation> {
        let lineage = lineage(path);
        overlaps(&lineage).find(|overlap| overlap.path == ours).map(|overlap| overlap.relation)
    }

    #[test]
    fn guard_detects_overlap_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let ours = top.join("a/ours");
        fs::create_dir_all(ours.join("in/deep")).unwrap();
        fs::create_dir_all(top.join("a/beside")).unwrap();
        symlink(&ours, top.join("link")).unwrap();
        symlink("a", top.join("above")).unwrap();
        let guard = Guard::opened(GuardedDirectory::Cache, &ours, open(&ours).unwrap()).unwrap();
        for (path, expected) in [
            ("a/ours", Some(Relation::Is)),
            ("link", Some(Relation::Is)),
            ("a/beside/../ours", Some(Relation::Is)),
            ("a", Some(Relation::Contains)),
            ("above", Some(Relation::Contains)),
            ("", Some(Relation::Contains)),
            ("a/ours/in", Some(Relation::Inside)),
            ("link/in/deep", Some(Relation::Inside)),
            ("a/beside", None),
        ] {
            assert_eq!(relation(&top.join(path), &ours), expected, "{path}");
        }
        assert_eq!(relation(std::path::Path::new("/"), &ours), Some(Relation::Contains));
        let own = *lineage(&ours).own().unwrap();
        assert!(is_guarded(own) && !is_guarded(*lineage(top).own().unwrap()));
        drop(guard);
        assert_eq!(relation(&ours, &ours), None);
        assert!(!is_guarded(own));
    }

    #[test]
    fn missing_directory_is_guarded_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let (top, ours) = (dir.path(), dir.path().join("a/b/ours"));
        fs::create_dir_all(top.join("beside")).unwrap();
        let before = generation();
        let _guard = Guard::named(GuardedDirectory::Private, &ours);
        assert!(generation() > before);
        assert_eq!(relation(top, &ours), Some(Relation::Contains));
        assert_eq!(relation(&top.join("beside"), &ours), None);
        fs::create_dir_all(top.join("a/b")).unwrap();
        assert_eq!(relation(&top.join("a/b"), &ours), Some(Relation::Contains));
        fs::create_dir_all(ours.join("in")).unwrap();
        assert_eq!(relation(&ours, &ours), Some(Relation::Is));
        assert_eq!(relation(&ours.join("in"), &ours), Some(Relation::Inside));
        assert_eq!(relation(&top.join("beside"), &ours), None);
    }

    #[test]
    fn known_child_of_a_guarded_directory_is_guarded() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        fs::create_dir_all(ours.join("in")).unwrap();
        let guard = Guard::opened(GuardedDirectory::Cache, &ours, open(&ours).unwrap()).unwrap();
        let inner = *lineage(&ours.join("in")).own().unwrap();
        assert!(!is_guarded(inner));
        guard.add_child(open(&ours.join("in")).unwrap()).unwrap();
        // As under a bind mount, no ancestor of the directory is guarded.
        assert!(is_guarded(inner));
    }
}
