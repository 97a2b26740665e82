//! An open host directory and operations on single names in it.
//!
//! Every operation takes a single name, never a path, and does not follow a link with that name. Links and races
//! therefore cannot redirect an operation out of the directory. If a directory is swapped for a link during a walk, the
//! walk fails.

use std::{io, os::unix::fs::PermissionsExt as _};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, File, Metadata, OpenOptions};
use cap_std::fs::{MetadataExt as _, OpenOptionsExt as _};
use glovebox_runtimes::guard::{self, DirectoryId, Lineage};
use glovebox_vfs::{FileIdentity, FileKind, SourceStat};
use serde::{Deserialize, Serialize};

/// The types of entries that guests see and commits write. Entries of other types are never touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EntryKind {
    File,
    Folder,
    Link,
}

/// The identity of a host entry and its state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryIdentity {
    pub(super) kind: EntryKind,
    /// The device number. Not in the journal, because a reboot can change it.
    #[serde(skip)]
    pub(super) device: u64,
    /// User and group IDs. Not in the journal, because they are only needed while contents are staged.
    #[serde(skip)]
    pub(super) owner: (u32, u32),
    pub(super) inode: u64,
    pub(super) size_bytes: u64,
    pub(super) modified_s: i64,
    pub(super) modified_ns: u32,
    /// The time of the last change to contents, names, owner or mode, in seconds and nanoseconds. Only the kernel sets
    /// this time, so it reveals changes that restore the modification time. `None` matches any time, because moving an
    /// entry during a commit also changes this time.
    #[serde(default)]
    pub(super) changed: Option<(i64, u32)>,
    /// The number of hard links. Not in the journal, because it is only needed before the journal is written.
    #[serde(skip)]
    pub(super) names: u64,
    /// The permission bits, without the set-user-ID, set-group-ID and sticky bits.
    pub(super) mode: u32,
}

impl EntryIdentity {
    /// Returns the identity, or `None` for entries other than files, directories and links.
    fn of(metadata: &Metadata) -> Option<Self> {
        let kind = if metadata.is_file() {
            EntryKind::File
        } else if metadata.is_dir() {
            EntryKind::Folder
        } else if metadata.is_symlink() {
            EntryKind::Link
        } else {
            return None;
        };
        Some(Self {
            kind,
            device: metadata.dev(),
            owner: (metadata.uid(), metadata.gid()),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            modified_s: metadata.mtime(),
            // The kernel keeps the nanoseconds below a billion.
            modified_ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            changed: Some((metadata.ctime(), u32::try_from(metadata.ctime_nsec()).unwrap_or(0))),
            names: metadata.nlink(),
            mode: metadata.mode() & 0o777,
        })
    }

    /// Returns a copy without the change time, for an entry that is moved to another name.
    pub(super) fn without_change_time(self) -> Self {
        Self { changed: None, ..self }
    }

    pub(super) fn source_stat(&self) -> SourceStat {
        SourceStat {
            kind: match self.kind {
                EntryKind::File => FileKind::File,
                EntryKind::Folder => FileKind::Directory,
                EntryKind::Link => FileKind::Symlink,
            },
            size_bytes: self.size_bytes,
            modified_ns: unix_ns(self.modified_s, self.modified_ns),
            changed_ns: self.changed.map_or(0, |(s, ns)| unix_ns(s, ns)),
            identity: FileIdentity { device: self.device, inode: self.inode },
        }
    }

    /// Returns `true` if `other` is the same entry, unchanged. The size and times of a directory change with its
    /// entries, so only its inode is compared.
    pub(super) fn is_unchanged(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.inode == other.inode
            && (self.kind == EntryKind::Folder
                || (self.size_bytes == other.size_bytes
                    && self.modified_s == other.modified_s
                    && self.modified_ns == other.modified_ns
                    && (self.changed.is_none() || other.changed.is_none() || self.changed == other.changed)))
    }
}

/// Converts a time to nanoseconds since 1970, clamped to the range of WASI timestamps.
fn unix_ns(seconds: i64, nanoseconds: u32) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::from(nanoseconds))
}

/// The result of looking up a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryAt {
    Nothing,
    Known(EntryIdentity),
    /// A pipe, socket or device. Hidden from guests, never opened and never replaced.
    Special,
}

impl EntryAt {
    pub(super) fn into_identity(self) -> Option<EntryIdentity> {
        match self {
            Self::Known(ident) => Some(ident),
            Self::Nothing | Self::Special => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Folder {
    dir: Dir,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Returns `true` if `name` is a single path component. The operating system would resolve `a/b` and `..` as paths.
pub(super) fn is_single_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

fn single(name: &str) -> io::Result<&str> {
    if is_single_name(name) { Ok(name) } else { Err(invalid("not a single name")) }
}

impl Folder {
    pub(super) fn new(dir: Dir) -> Self {
        Self { dir }
    }

    /// Opens a subdirectory. Fails for Glovebox's own directories, which may have been moved or bind-mounted here.
    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        let child = self.dir.open_dir_nofollow(single(name)?).map(Self::new)?;
        let (device, inode) = child.device_and_inode()?;
        if guard::is_guarded(DirectoryId { device, inode }) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this is one of Glovebox's own directories"));
        }
        Ok(child)
    }

    /// Returns the identities of the directory and its ancestors.
    pub(super) fn lineage(&self) -> io::Result<Lineage> {
        Lineage::of(&self.dir)
    }

    pub(super) fn find(&self, name: &str) -> io::Result<EntryAt> {
        match self.dir.symlink_metadata(single(name)?) {
            Ok(metadata) => Ok(EntryIdentity::of(&metadata).map_or(EntryAt::Special, EntryAt::Known)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(EntryAt::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Returns the device and the inode of the directory.
    pub(super) fn device_and_inode(&self) -> io::Result<(u64, u64)> {
        let metadata = self.dir.dir_metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    pub(super) fn own_identity(&self) -> io::Result<EntryIdentity> {
        let ident = EntryIdentity::of(&self.dir.dir_metadata()?);
        ident.ok_or_else(|| invalid("not a directory"))
    }

    /// Opens a regular file for reading and returns its identity.
    ///
    /// Checks the type before opening, because opening a device can have side effects. Opens without blocking and
    /// checks again, because the file may have been swapped for a pipe.
    pub(super) fn open_file(&self, name: &str) -> io::Result<(File, EntryIdentity)> {
        let is_file = |ident: &EntryIdentity| ident.kind == EntryKind::File;
        if !self.find(name)?.into_identity().is_some_and(|i| is_file(&i)) {
            return Err(invalid("not a regular file"));
        }
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = self.dir.open_with(single(name)?, &options)?;
        let ident = EntryIdentity::of(&file.metadata()?).filter(is_file);
        Ok((file, ident.ok_or_else(|| invalid("not a regular file"))?))
    }

    /// Creates a file. Fails if the name exists. The process's umask applies to `mode`.
    pub(super) fn create_file(&self, name: &str, mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        options.follow(FollowSymlinks::No);
        self.dir.open_with(single(name)?, &options)
    }

    /// Creates a directory. Fails if the name exists. The process's umask applies to `mode`.
    pub(super) fn create_folder(&self, name: &str, mode: u32) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(mode);
        self.dir.create_dir_with(single(name)?, &builder)
    }

    /// Sets the directory's mode, regardless of the umask.
    pub(super) fn set_own_mode(&self, mode: u32) -> io::Result<()> {
        let permissions = std::fs::Permissions::from_mode(mode & 0o777);
        self.readable()?.set_permissions(permissions)
    }

    pub(super) fn create_link(&self, name: &str, target: &str) -> io::Result<()> {
        self.dir.symlink_contents(target, single(name)?)
    }

    pub(super) fn read_link(&self, name: &str) -> io::Result<std::path::PathBuf> {
        self.dir.read_link_contents(single(name)?)
    }

    /// Moves an entry over an existing file or link, atomically.
    pub(super) fn replace(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        self.dir.rename(single(name)?, &to.dir, single(to_name)?)
    }

    /// Moves an entry to a name that must not exist. The check is atomic if the system supports an exclusive rename.
    /// Otherwise, a race remains between the check and the move.
    pub(super) fn move_to_free(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        let (name, to_name) = (single(name)?, single(to_name)?);
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::io::Errno;
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.dir, name, &to.dir, to_name, flags) {
                // The file system does not support the flag.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                result => return result.map_err(io::Error::from),
            }
        }
        match to.find(to_name)? {
            EntryAt::Nothing => self.dir.rename(name, &to.dir, to_name),
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Creates a hard link to a file.
    pub(super) fn link_file(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        self.dir.hard_link(single(name)?, &to.dir, single(to_name)?)
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.dir.remove_file(single(name)?)
    }

    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.dir.remove_dir(single(name)?)
    }

    /// Lists the names in the directory, in no particular order. A name that is not UTF-8 is returned as `None`.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<Option<String>>>> {
        let entries = self.dir.entries()?;
        Ok(entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok())))
    }

    /// Empties the directory. Removes files and links. Moves subdirectories into `trash` as `trash-<count>`, to remove
    /// deep trees level by level.
    pub(super) fn empty_into(&self, trash: &Self, count: &mut u64) -> io::Result<()> {
        for entry in self.dir.entries()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let name = format!("trash-{count}");
                self.dir.rename(entry.file_name(), &trash.dir, name)?;
                *count += 1;
            } else {
                entry.remove_file()?;
            }
        }
        Ok(())
    }

    /// Fails if this process may not look up and list entries or, with `writing`, change them. Succeeds if the system
    /// cannot tell. In that case, the operations themselves fail later.
    pub(super) fn check_access(&self, writing: bool) -> io::Result<()> {
        use rustix::fs::{Access, AtFlags};
        use rustix::io::Errno;
        let mut access = Access::READ_OK | Access::EXEC_OK;
        access.set(Access::WRITE_OK, writing);
        match rustix::fs::accessat(&self.dir, ".", access, AtFlags::EACCESS) {
            Err(denied @ (Errno::ACCESS | Errno::ROFS)) => Err(denied.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the directory's entries are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.readable()?.sync_all()
    }

    /// Waits until all data written to the file system is on its disk. Returns `false` if the system cannot sync a
    /// whole file system.
    pub(super) fn sync_file_system(&self) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        {
            rustix::fs::syncfs(self.readable()?)?;
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// Opens the directory as a descriptor that can be locked and synced. The existing handle may support only lookups
    /// (`O_PATH`).
    pub(super) fn readable(&self) -> io::Result<std::fs::File> {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        self.dir.open_with(".", &options).map(File::into_std)
    }
}
