//! What a worker may reach, and what holds it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a worker may still reach.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Files and directories that it reads.
    pub read: Vec<PathBuf>,
    /// Directories in which it also writes.
    pub write: Vec<PathBuf>,
    /// Bytes of memory of its own (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Open files.
    pub open_files: u64,
}

/// Whether the kernel holds a worker to something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// It does.
    On,
    /// It does, but not to all of it.
    Partly(String),
    /// It does not, and why.
    Off(String),
}

/// What holds a worker, beside the sandbox itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Memory, open files, no core dumps.
    pub resource_limits: Measure,
    /// No program that it might start gains privileges.
    pub no_new_privileges: Measure,
    /// It reaches no files but the interpreters', and its sessions'; no TCP.
    pub landlock: Measure,
    /// No system calls but those that it needs: no sockets, no programs, no other processes.
    pub seccomp: Measure,
}

impl Measure {
    pub(super) fn of<E: std::fmt::Display>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::On,
            Err(error) => Self::Off(error.to_string()),
        }
    }
}

impl Confinement {
    /// What the kernel does not do, by name, with the reason.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("resource limits", &self.resource_limits),
            ("no_new_privs", &self.no_new_privileges),
            ("landlock", &self.landlock),
            ("seccomp", &self.seccomp),
        ];
        all.into_iter().filter_map(|(name, measure)| match measure {
            Measure::On => None,
            Measure::Partly(reason) | Measure::Off(reason) => Some((name, reason.as_str())),
        })
    }
}
