//! Copies between a workspace and the host.

mod inwards;
mod outwards;

use std::fs;
use std::io;
use std::path::Path;

pub(super) use inwards::into;
pub(super) use outwards::out_of;

use super::FilesError;

/// A place on the host that the caller named.
enum Place<'p> {
    Directory,
    /// The directory it is in, and its name there.
    File(&'p Path, &'p str),
}

fn host_path(path: &Path) -> FilesError {
    FilesError::HostPath { path: path.to_owned() }
}

/// What is at a path, which is not followed if it is a link; a file's name where nothing is.
fn place(host: &Path) -> Result<Option<Place<'_>>, FilesError> {
    match fs::symlink_metadata(host) {
        Ok(metadata) if metadata.is_symlink() => Err(FilesError::HostLink { path: host.to_owned() }),
        Ok(metadata) if metadata.is_dir() => Ok(Some(Place::Directory)),
        Ok(metadata) if metadata.is_file() => Ok(Some(file_place(host)?)),
        Ok(_) => Err(host_path(host)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FilesError::io("look at the place on the host")(error)),
    }
}

fn file_place(host: &Path) -> Result<Place<'_>, FilesError> {
    let name = host.file_name().and_then(|name| name.to_str()).ok_or_else(|| host_path(host))?;
    let dir = host.parent().ok_or_else(|| host_path(host))?;
    Ok(Place::File(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }, name))
}
