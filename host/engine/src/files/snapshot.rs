//! A workspace as it was at one moment.

use glovebox_core::files::Snapshot;
use glovebox_vfs::{RootId, Vfs};

/// A snapshot of a workspace: as an execution left it, committed to a host directory or not, or as a session
/// had it. It shares unchanged contents with the session, so it costs what the session changes afterwards.
///
/// Where the workspace stands for a host directory, what has never been looked at is read from there when asked for.
#[derive(Clone, Debug)]
pub struct Files(pub(super) Snapshot);

impl From<Snapshot> for Files {
    fn from(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

impl Files {
    /// Those of what has no workspace.
    pub(crate) fn none() -> Self {
        Self(Snapshot::none())
    }

    /// Those of a workspace.
    pub(crate) fn of(vfs: Vfs, root: Option<RootId>) -> Self {
        Self(Snapshot::new(vfs, root))
    }

    /// What the files take, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }
}
