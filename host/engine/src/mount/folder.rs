//! One open directory of the host, and the operations on a single name in it.
//!
//! Every operation takes one name, never a path, and never follows a link in it. So there is
//! nothing for a link or a race to redirect: whoever swaps a directory for a link while we walk
//! makes us fail, not leave.

use std::io;
use std::os::unix::fs::PermissionsExt as _;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, File, Metadata, OpenOptions};
use cap_std::fs::{MetadataExt as _, OpenOptionsExt as _};
use glovebox_runtimes::guard::{self, DirectoryId, Lineage};
use glovebox_vfs::{FileIdentity, FileKind, SourceStat};
use serde::{Deserialize, Serialize};

/// The kinds of entries that guests see and commits write. All others are left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
}

/// What distinguishes one state of a host file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ident {
    pub(super) kind: Kind,
    /// Not written to a journal: the same disk may have another number after a restart.
    #[serde(skip)]
    pub(super) device: u64,
    /// User and group. Not written to a journal either: only needed while contents are staged.
    #[serde(skip)]
    pub(super) owner: (u32, u32),
    pub(super) inode: u64,
    pub(super) size_bytes: u64,
    pub(super) modified_s: i64,
    pub(super) modified_ns: u32,
    /// The last change of contents, names, owner or mode, in seconds and nanoseconds. The kernel alone sets it, so it tells
    /// where somebody has restored the other time. `None`: not compared, since the commit itself changes it.
    #[serde(default)]
    pub(super) changed: Option<(i64, u32)>,
    /// How many names it has. Not written to a journal: only needed while contents are staged.
    #[serde(skip)]
    pub(super) names: u64,
    /// Permission bits only: never set-user-ID, set-group-ID or sticky.
    pub(super) mode: u32,
}

impl Ident {
    /// `None` for what is neither file, directory nor link.
    fn of(metadata: &Metadata) -> Option<Self> {
        let kind = if metadata.is_file() {
            Kind::File
        } else if metadata.is_dir() {
            Kind::Folder
        } else if metadata.is_symlink() {
            Kind::Link
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
            // The kernel keeps it below a billion.
            modified_ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            changed: Some((metadata.ctime(), u32::try_from(metadata.ctime_nsec()).unwrap_or(0))),
            names: metadata.nlink(),
            mode: metadata.mode() & 0o777,
        })
    }

    /// The same, moved to another name or about to be: the time of its change is not compared.
    pub(super) fn moved(self) -> Self {
        Self { changed: None, ..self }
    }

    pub(super) fn source_stat(&self) -> SourceStat {
        SourceStat {
            kind: match self.kind {
                Kind::File => FileKind::File,
                Kind::Folder => FileKind::Directory,
                Kind::Link => FileKind::Symlink,
            },
            size_bytes: self.size_bytes,
            modified_ns: unix_ns(self.modified_s, self.modified_ns),
            changed_ns: self.changed.map_or(0, |(s, ns)| unix_ns(s, ns)),
            identity: FileIdentity { device: self.device, inode: self.inode },
        }
    }

    /// Whether this is the same, unchanged thing. A directory's size and time change with what is
    /// in it, so it is the same as long as it is the same directory.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.inode == other.inode
            && (self.kind == Kind::Folder
                || (self.size_bytes == other.size_bytes
                    && self.modified_s == other.modified_s
                    && self.modified_ns == other.modified_ns
                    && (self.changed.is_none() || other.changed.is_none() || self.changed == other.changed)))
    }
}

/// Nanoseconds since 1970, clamped to what WASI can say.
fn unix_ns(seconds: i64, nanoseconds: u32) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::from(nanoseconds))
}

/// What is found under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Known(Ident),
    /// A pipe, socket or device: not shown, not opened, not replaced.
    Special,
}

impl Found {
    pub(super) fn known(self) -> Option<Ident> {
        match self {
            Self::Known(ident) => Some(ident),
            Self::Nothing | Self::Special => None,
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Folder {
    dir: Dir,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Whether `name` is one component: the operating system would take `a/b` or `..` as a way.
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

    /// Opens a directory in this one, unless it is one of Glovebox's own: it may have been moved or bound here.
    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        let child = self.dir.open_dir_nofollow(single(name)?).map(Self::new)?;
        let (device, inode) = child.device_and_inode()?;
        if guard::is_guarded(DirectoryId { device, inode }) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "one of Glovebox's own directories"));
        }
        Ok(child)
    }

    /// The directory and those above it.
    pub(super) fn lineage(&self) -> io::Result<Lineage> {
        Lineage::of(&self.dir)
    }

    pub(super) fn find(&self, name: &str) -> io::Result<Found> {
        match self.dir.symlink_metadata(single(name)?) {
            Ok(metadata) => Ok(Ident::of(&metadata).map_or(Found::Special, Found::Known)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    /// The file system the directory lies on, and its inode.
    pub(super) fn device_and_inode(&self) -> io::Result<(u64, u64)> {
        let metadata = self.dir.dir_metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    pub(super) fn own_ident(&self) -> io::Result<Ident> {
        let ident = Ident::of(&self.dir.dir_metadata()?);
        ident.ok_or_else(|| invalid("not a directory"))
    }

    /// Opens a regular file for reading, and says what was opened.
    ///
    /// Looked at before it is opened, since opening a device can already do something; opened
    /// without blocking and looked at again, since it may have been swapped for a pipe between.
    pub(super) fn open_file(&self, name: &str) -> io::Result<(File, Ident)> {
        let is_file = |ident: &Ident| ident.kind == Kind::File;
        if !self.find(name)?.known().is_some_and(|i| is_file(&i)) {
            return Err(invalid("not a regular file"));
        }
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = self.dir.open_with(single(name)?, &options)?;
        let ident = Ident::of(&file.metadata()?).filter(is_file);
        Ok((file, ident.ok_or_else(|| invalid("not a regular file"))?))
    }

    /// Creates a file that was not there. `mode` is subject to the process's umask.
    pub(super) fn create_file(&self, name: &str, mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        options.follow(FollowSymlinks::No);
        self.dir.open_with(single(name)?, &options)
    }

    /// Creates a directory that was not there. `mode` is subject to the process's umask.
    pub(super) fn create_folder(&self, name: &str, mode: u32) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(mode);
        self.dir.create_dir_with(single(name)?, &builder)
    }

    /// Sets a directory's mode exactly.
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

    /// Moves over whatever file or link is there, in one step.
    pub(super) fn replace(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        self.dir.rename(single(name)?, &to.dir, single(to_name)?)
    }

    /// Moves to a name that must be free: the operating system checks and moves in one step where
    /// it can; elsewhere we look first.
    pub(super) fn move_to_free(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        let (name, to_name) = (single(name)?, single(to_name)?);
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::io::Errno;
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.dir, name, &to.dir, to_name, flags) {
                // The file system does not know the flag.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                result => return result.map_err(io::Error::from),
            }
        }
        match to.find(to_name)? {
            Found::Nothing => self.dir.rename(name, &to.dir, to_name),
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// A second name for the same file.
    pub(super) fn link_file(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        self.dir.hard_link(single(name)?, &to.dir, single(to_name)?)
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.dir.remove_file(single(name)?)
    }

    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.dir.remove_dir(single(name)?)
    }

    /// The names in the directory, in no order. Names that are not UTF-8 come as `None`.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<Option<String>>>> {
        let entries = self.dir.entries()?;
        Ok(entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok())))
    }

    /// Empties the directory: files and links go, directories are moved into `trash` under the
    /// names `trash-<count>`, so that a tree of any depth is taken apart level by level.
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

    /// Fails if this process certainly may not look up and list entries, or change them
    /// if asked. Where the system cannot say, the operation itself will.
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

    /// Waits until the directory's entries are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.readable()?.sync_all()
    }

    /// Waits until everything written to the file system is on its disk, where there is a call
    /// for that; `false` where there is none.
    pub(super) fn sync_file_system(&self) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        {
            rustix::fs::syncfs(self.readable()?)?;
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// The directory as a descriptor that can be locked and synced: the handle itself may be
    /// good for lookups only (`O_PATH`).
    pub(super) fn readable(&self) -> io::Result<std::fs::File> {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        self.dir.open_with(".", &options).map(File::into_std)
    }
}
