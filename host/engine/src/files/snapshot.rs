//! A snapshot of a workspace.

use glovebox_core::files::Snapshot;
use glovebox_vfs::{RootId, Vfs};

/// A snapshot of a workspace: after an execution, committed to a host directory or not, or of a session. It shares
/// unchanged contents with the session, so its memory grows only with later changes in the session.
///
/// If the workspace is a host directory, files that were never read before are read from it on demand.
#[derive(Clone, Debug)]
pub struct Files(pub(super) Snapshot);

impl From<Snapshot> for Files {
    fn from(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

impl Files {
    /// The files of an execution without a workspace.
    pub(crate) fn none() -> Self {
        Self(Snapshot::none())
    }

    /// The files of a workspace.
    pub(crate) fn of(vfs: Vfs, root: Option<RootId>) -> Self {
        Self(Snapshot::new(vfs, root))
    }

    /// Returns the memory that the files take, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }
}
