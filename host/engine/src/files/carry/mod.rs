//! Copies between a workspace and the host.

mod inwards;
mod outwards;

use std::fs;
use std::io;
use std::path::Path;

pub(super) use inwards::into;
pub(super) use outwards::out_of;

use super::FilesError;

/// The kind of a host path from the caller.
enum Place<'p> {
    Directory,
    /// Parent directory and file name.
    File(&'p Path, &'p str),
}

fn host_path(path: &Path) -> FilesError {
    FilesError::HostPath { path: path.to_owned() }
}

/// Returns the kind of a host path, without following a link. `None` if the path does not exist.
fn place(host: &Path) -> Result<Option<Place<'_>>, FilesError> {
    match fs::symlink_metadata(host) {
        Ok(metadata) if metadata.is_symlink() => Err(FilesError::HostLink { path: host.to_owned() }),
        Ok(metadata) if metadata.is_dir() => Ok(Some(Place::Directory)),
        Ok(metadata) if metadata.is_file() => Ok(Some(file_place(host)?)),
        Ok(_) => Err(host_path(host)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FilesError::io("inspect the path on the host")(error)),
    }
}

fn file_place(host: &Path) -> Result<Place<'_>, FilesError> {
    let name = host.file_name().and_then(|name| name.to_str()).ok_or_else(|| host_path(host))?;
    let dir = host.parent().ok_or_else(|| host_path(host))?;
    Ok(Place::File(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }, name))
}
