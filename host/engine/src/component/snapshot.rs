//! Files that the host holds for a component.

use super::quotas::Share;
use crate::Files;

/// A snapshot of files with its share of the quota.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Snapshot {
    files: Files,
    _share: Share,
}

impl Snapshot {
    pub(super) fn new(files: Files, share: Share) -> Self {
        Self { files, _share: share }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }
}
