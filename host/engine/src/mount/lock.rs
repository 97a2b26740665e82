//! Excludes concurrent commits and recoveries in a directory, across processes.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::MountError;
use super::folder::Folder;

/// Polling interval for the lock. Short compared to the milliseconds that a sync takes.
const POLL: Duration = Duration::from_millis(5);

/// Holds the directory's advisory lock until dropped. The system releases it when the process dies.
///
/// The lock is on the directory itself, so no lock file remains among the user's files. Readers do not take it.
#[derive(Debug)]
pub(super) struct Lock {
    _held: File,
}

impl Lock {
    pub(super) fn take(folder: &Folder, path: &Path, wait: Duration) -> Result<Self, MountError> {
        let name = || path.display().to_string();
        let file = folder.readable().map_err(MountError::io("open to lock", name()))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _held: file }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < wait => {
                    std::thread::sleep(POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(MountError::Busy {
                        path: path.to_owned(),
                        waited_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(MountError::io("lock", name())(error));
                }
            }
        }
    }
}
