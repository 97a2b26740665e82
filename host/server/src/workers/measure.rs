//! The confinement of a worker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The resources that a worker may access.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Files and directories that the worker may read.
    pub read: Vec<PathBuf>,
    /// Directories that the worker may also write to.
    pub write: Vec<PathBuf>,
    /// Private memory in bytes (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Maximum number of open files (`RLIMIT_NOFILE`).
    pub open_files: u64,
}

/// The state of one protection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Fully enforced.
    On,
    /// Partly enforced, with the reason.
    Partly(String),
    /// Not enforced, with the reason.
    Off(String),
}

/// The protections around a worker, in addition to the sandbox itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Limits on memory and open files; no core dumps.
    pub resource_limits: Measure,
    /// Programs cannot gain privileges (`no_new_privs`).
    pub no_new_privileges: Measure,
    /// Access only to the files of the interpreters and of the worker's sessions; no TCP.
    pub landlock: Measure,
    /// Only the required system calls: no new sockets, no programs, no access to other processes.
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
    /// The protections that are not fully enforced: name and reason.
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
