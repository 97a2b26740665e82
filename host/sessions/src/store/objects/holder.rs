//! The lease of a lock's holder, and its writes with unknown outcome.

use std::sync::{Mutex, PoisonError};

use super::lease::Lease;
use crate::store::{Expected, StoredVersion};

#[derive(Debug, Default)]
pub(super) struct Holder {
    _lease: Option<Lease>,
    /// Versions of writes with unknown outcome, and the version that those writes expected.
    unsettled: Mutex<Option<(Expected, Vec<StoredVersion>)>>,
}

impl Holder {
    pub(super) fn new(lease: Lease) -> Self {
        Self { _lease: Some(lease), ..Self::default() }
    }

    /// Records a write before its outcome is known.
    pub(super) fn begins(&self, expected: &Expected, version: &StoredVersion) {
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *unsettled {
            Some((same, versions)) if same == expected => versions.push(version.clone()),
            other => *other = Some((expected.clone(), vec![version.clone()])),
        }
    }

    /// Forgets the recorded writes after one was accepted. Returns the others, which were not accepted or were
    /// overwritten.
    pub(super) fn settles(&self, accepted: &StoredVersion) -> Vec<StoredVersion> {
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (_, mut versions) = unsettled.unwrap_or((Expected::Any, Vec::new()));
        versions.retain(|version| version != accepted);
        versions
    }

    /// Returns whether the holder made this write with the same expectation, and has not learned its outcome.
    pub(super) fn wrote(&self, expected: &Expected, is: impl Fn(&StoredVersion) -> bool) -> bool {
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        unsettled.as_ref().is_some_and(|(same, versions)| same == expected && versions.iter().any(is))
    }
}
