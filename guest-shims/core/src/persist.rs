//! The files in which globals persist from one execution to the next.

use glovebox_interpreters::{JAVASCRIPT_STATE_FILE, PYTHON_STATE_FILE};
use glovebox_vfs::Changes;

use crate::Language;

/// Removes the file that the driver keeps globals in from what a script changed.
pub fn hide_state_file(changes: &mut Changes, language: Language) {
    let file = match language {
        Language::Python => PYTHON_STATE_FILE,
        Language::JavaScript => JAVASCRIPT_STATE_FILE,
    };
    for paths in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
        paths.retain(|path| path != file);
    }
}
