//! Files at the top of a mount, for an embedder that stores data there on the guest's behalf. Access has the guest's
//! clock and limits, and is charged to the guest.

use glovebox_vfs::{FileKind, Follow, Vfs, VfsError};

use crate::failure::{Call, Failure};
use crate::{Errno, Host, Stop, Wasi, prices};

/// The entry under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAt {
    /// There is no entry.
    Nothing,
    /// A file, with its content.
    File(Vec<u8>),
    /// A file that is longer than the caller accepts.
    TooLong,
    /// A directory.
    Directory,
    /// A symlink, regardless of its target.
    Link,
}

impl Wasi {
    /// Returns the file `name` at the top of the mount at `mount`, without following a link. Reads at most `max_bytes`.
    ///
    /// # Errors
    /// The outer error means that the guest cannot pay, the inner one that the file cannot be read.
    pub fn file_at<H: Host + ?Sized>(
        &mut self,
        host: &mut H,
        mount: &str,
        name: &str,
        max_bytes: u64,
    ) -> Result<Result<FileAt, Errno>, Stop> {
        let Some(root) = self.mount_root(mount) else { return Ok(Ok(FileAt::Nothing)) };
        host.charge(prices::CALL)?;
        let looked = self.with_vfs(host, |vfs| {
            let top = vfs.root_dir(root).ok_or(VfsError::BadInode)?;
            let inode = match vfs.lookup(top, name.as_bytes(), Follow::No) {
                Ok(inode) => inode,
                Err(VfsError::NotFound) => return Ok(FileAt::Nothing),
                Err(error) => return Err(error),
            };
            Ok(match vfs.stat(inode)?.kind {
                FileKind::Directory => FileAt::Directory,
                FileKind::Symlink => FileAt::Link,
                FileKind::File => match vfs.read_file(root, name, max_bytes) {
                    Ok(bytes) => FileAt::File(bytes),
                    Err(error) if error.reason == VfsError::FileTooBig => FileAt::TooLong,
                    Err(error) => return Err(error.reason),
                },
            })
        });
        split_stop(looked)
    }

    /// Writes a file at the top of the mount at `mount`, completely or not at all.
    ///
    /// # Errors
    /// As for [`file_at`](Self::file_at).
    pub fn replace_file<H: Host + ?Sized>(
        &mut self,
        host: &mut H,
        mount: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<Result<(), Errno>, Stop> {
        let Some(root) = self.mount_root(mount) else { return Ok(Err(Errno::NoEnt)) };
        host.charge(prices::CALL.saturating_add(prices::bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX))))?;
        let write = |vfs: &mut Vfs| vfs.write_file(root, name, bytes).map_err(|error| error.reason);
        split_stop(self.change_vfs(host, write))
    }
}

fn split_stop<T>(done: Call<T>) -> Result<Result<T, Errno>, Stop> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(Failure::Errno(errno)) => Ok(Err(errno)),
        Err(Failure::Stop(stop)) => Err(stop),
    }
}
