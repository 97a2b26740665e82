//! Creates and removes the private directories of commits.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;

use super::RESERVED_PREFIX;
use super::error::MountError;
use super::folder::{Folder, Found, Kind};
use super::journal;

/// Maximum number of names to try. One is enough unless the random numbers repeat.
const ATTEMPTS: usize = 8;

/// Creates a private directory with an unused name.
pub(super) fn make(root: &Folder) -> Result<(String, Folder), MountError> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        // The standard library seeds the hasher randomly. The name need not be secret, only unused.
        let number = RandomState::new().build_hasher().finish();
        let name = format!("{RESERVED_PREFIX}{number:016x}");
        match root.create_folder(&name, 0o700).and_then(|()| root.child(&name)) {
            Ok(folder) => return Ok((name, folder)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(MountError::io("create", name)(error)),
        }
    }
    Err(MountError::io("create", RESERVED_PREFIX)(last))
}

/// Lists the private directories. A file or link with such a name does not count.
pub(super) fn find(root: &Folder) -> Result<Vec<String>, MountError> {
    let mut found = Vec::new();
    let failed = || MountError::io("list", ".");
    for name in root.names().map_err(failed())? {
        let Some(name) = name.map_err(failed())? else {
            continue;
        };
        if !name.starts_with(RESERVED_PREFIX) {
            continue;
        }
        if let Found::Known(ident) = root.find(&name).map_err(failed())?
            && ident.kind == Kind::Folder
        {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a private directory and all its contents. Moves nested directories to its top level one after the other, so
/// nothing recurses and no path gets long.
pub(super) fn remove(root: &Folder, name: &str) -> Result<(), MountError> {
    let failed = || MountError::io("remove", name);
    let staging = match root.child(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.map_err(failed())?,
    };
    // Remove and sync the journal first: a journal must never remain without some of its files.
    match staging.remove_file(journal::NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result.and_then(|()| staging.sync()).map_err(failed())?,
    }
    let mut count = 0;
    loop {
        let mut folders = Vec::new();
        for entry in staging.names().map_err(failed())? {
            // Not a name that a commit uses: removing the directory will fail and report it.
            let Some(entry) = entry.map_err(failed())? else {
                continue;
            };
            match staging.find(&entry).map_err(failed())? {
                Found::Known(ident) if ident.kind == Kind::Folder => folders.push(entry),
                Found::Nothing => {}
                _ => staging.remove_file(&entry).map_err(failed())?,
            }
        }
        if folders.is_empty() {
            return root.remove_folder(name).map_err(failed());
        }
        for entry in folders {
            let folder = staging.child(&entry).map_err(failed())?;
            folder.empty_into(&staging, &mut count).map_err(failed())?;
            staging.remove_folder(&entry).map_err(failed())?;
        }
    }
}
