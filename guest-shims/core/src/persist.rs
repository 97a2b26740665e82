//! The files that persist globals from one execution to the next.

use glovebox_interpreters::{JAVASCRIPT_STATE_FILE, PYTHON_STATE_FILE};
use glovebox_vfs::{Changes, RootId, Vfs};

use crate::Language;

/// Returns the script's changes to the workspace. With `persists`, the file of stored globals is left out, because the
/// script did not write it.
#[must_use]
pub fn changes(vfs: &Vfs, workspace: Option<RootId>, language: Language, persists: bool) -> Changes {
    let mut changes = workspace.map(|root| vfs.changes(root)).unwrap_or_default();
    if persists {
        let file = match language {
            Language::Python => PYTHON_STATE_FILE,
            Language::JavaScript => JAVASCRIPT_STATE_FILE,
        };
        for paths in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
            paths.retain(|path| path != file);
        }
    }
    changes
}
