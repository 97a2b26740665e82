//! Individual changes to a workspace. A change that fails can have partial effects; [`atomically`] prevents partial
//! effects.

use glovebox_vfs::{FileKind, Follow, InodeId, RootId, Vfs, VfsError};

use super::{FileError, IfExists, entry_path};

/// Applies a change to a copy of the file system, which replaces the original on success.
///
/// # Errors
/// Returns the error of `change`, which then has no effect.
pub fn atomically<T, E>(vfs: &mut Vfs, change: impl FnOnce(&mut Vfs) -> Result<T, E>) -> Result<T, E> {
    let mut changed = vfs.clone();
    let result = change(&mut changed)?;
    *vfs = changed;
    Ok(result)
}

/// Returns the workspace's root directory.
///
/// # Errors
/// Fails if the file system has no root with this ID.
pub fn top(vfs: &Vfs, root: RootId) -> Result<InodeId, FileError> {
    vfs.root_dir(root).ok_or(VfsError::BadInode).map_err(FileError::refused("find", "."))
}

/// Rejects a name that already exists, even as a dangling link, unless `if_exists` allows replacing it.
fn check_free(vfs: &mut Vfs, top: InodeId, path: &str, if_exists: IfExists) -> Result<(), FileError> {
    if if_exists == IfExists::Replace {
        return Ok(());
    }
    match vfs.lookup(top, path.as_bytes(), Follow::No) {
        Ok(_) => Err(FileError::Exists { path: path.to_owned() }),
        // The operation that follows reports any other error.
        Err(_) => Ok(()),
    }
}

/// Writes a file and creates missing ancestor directories.
///
/// # Errors
/// [`FileError::Exists`] if the name exists and `if_exists` is [`IfExists::Fail`]. Also fails if the path is invalid,
/// an ancestor is not a directory, or a limit on files is reached.
pub fn write(vfs: &mut Vfs, root: RootId, path: &str, bytes: &[u8], if_exists: IfExists) -> Result<(), FileError> {
    let path = entry_path(path)?;
    let top = top(vfs, root)?;
    check_free(vfs, top, &path, if_exists)?;
    vfs.write_file(root, &path, bytes).map_err(|error| FileError::refused("write", &path)(error.reason))
}

/// Creates a directory and its missing ancestors.
///
/// # Errors
/// [`FileError::Exists`] if the name exists. Also fails if the path is invalid, an ancestor is not a directory, or a
/// limit on files is reached.
pub fn make_dir(vfs: &mut Vfs, root: RootId, path: &str) -> Result<(), FileError> {
    let path = entry_path(path)?;
    let top = top(vfs, root)?;
    check_free(vfs, top, &path, IfExists::Fail)?;
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    for above in ends.filter_map(|end| path.get(..end)) {
        match vfs.create_dir(top, above.as_bytes()) {
            Ok(_) | Err(VfsError::AlreadyExists) => {}
            Err(error) => return Err(FileError::refused("make", above)(error)),
        }
    }
    Ok(())
}

/// Removes a file, a link or an empty directory.
///
/// # Errors
/// Fails if the path is invalid or does not exist, or the directory is not empty.
pub fn delete(vfs: &mut Vfs, root: RootId, path: &str) -> Result<(), FileError> {
    let path = entry_path(path)?;
    let refused = || FileError::refused("delete", &path);
    let top = top(vfs, root)?;
    let found = vfs.lookup(top, path.as_bytes(), Follow::No).map_err(refused())?;
    match vfs.stat(found).map_err(refused())?.kind {
        FileKind::Directory => vfs.remove_dir(top, path.as_bytes()),
        FileKind::File | FileKind::Symlink => vfs.unlink(top, path.as_bytes()),
    }
    .map_err(refused())
}

/// Removes a file or a link, or a directory with everything below it.
///
/// # Errors
/// Fails if the path is invalid or does not exist.
pub fn delete_all(vfs: &mut Vfs, root: RootId, path: &str) -> Result<(), FileError> {
    let path = entry_path(path)?;
    vfs.remove(root, &path).map_err(|error| FileError::refused("delete", &path)(error.reason))
}

/// Renames a file, directory or link.
///
/// # Errors
/// [`FileError::Exists`] if `to` exists and `if_exists` is [`IfExists::Fail`]. Also fails if a path is invalid, or
/// `from` does not exist.
pub fn rename(vfs: &mut Vfs, root: RootId, from: &str, to: &str, if_exists: IfExists) -> Result<(), FileError> {
    let (from, to) = (entry_path(from)?, entry_path(to)?);
    let top = top(vfs, root)?;
    check_free(vfs, top, &to, if_exists)?;
    vfs.rename(top, from.as_bytes(), top, to.as_bytes()).map_err(FileError::refused("rename", &from))
}
