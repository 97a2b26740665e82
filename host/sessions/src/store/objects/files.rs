//! Lists a directory on this machine. The library's listing omits files that are deleted meanwhile, and also the files
//! that replace them.

use std::{
    ffi::OsStr,
    fs, io,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use super::bucket::Listed;

/// Lists the files below a directory after a name, in the order of their names.
///
/// Reads all names of a directory before any metadata. Linux returns as many names as a session's log has in one call,
/// and so as of one moment. A file that is deleted afterwards is listed with length 0, and a read of it finds it
/// absent.
pub(super) fn list(root: &Path, dir: &str, after: Option<&str>, limit: usize) -> io::Result<Vec<Listed>> {
    let mut names = Vec::new();
    collect(root, dir, &mut names)?;
    names.retain(|name| after.is_none_or(|after| name.as_str() > after));
    names.sort_unstable();
    names.truncate(limit);
    names.into_iter().map(|name| describe(root, name)).collect()
}

fn collect(root: &Path, dir: &str, names: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry?;
        // Skip names that blobs cannot have. The library's temporary files contain a `#`.
        let Some(name) = entry.file_name().to_str().filter(|name| !name.contains('#')).map(str::to_owned) else {
            continue;
        };
        let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => dirs.push(name),
            Ok(kind) if kind.is_file() => files.push(name),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    names.append(&mut files);
    dirs.iter().try_for_each(|dir| collect(root, dir, names))
}

fn describe(root: &Path, name: String) -> io::Result<Listed> {
    match fs::symlink_metadata(root.join(&name)) {
        Ok(metadata) => {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified_ms = i64::try_from(modified.as_millis()).unwrap_or(i64::MAX);
            Ok(Listed { name, bytes: metadata.len(), modified_ms })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Listed { name, bytes: 0, modified_ms: 0 }),
        Err(error) => Err(error),
    }
}

/// Removes files of killed writers: the library writes to `NAME#NUMBER` first. Failures are retried when the store is
/// opened again.
pub(super) fn remove_staged(root: &Path, older_than: Duration) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            remove_staged(&entry.path(), older_than);
        } else if kind.is_file() && is_staged(&entry.file_name()) {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > older_than));
            if is_old && let Err(error) = fs::remove_file(entry.path()) {
                tracing::debug!(target: "glovebox", %error, "could not remove a file of a killed writer");
            }
        }
    }
}

fn is_staged(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.rsplit_once('#'));
    number.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
