//! What a lock's holder has: the lease, and what it does not know about its own writes.

use std::sync::{Mutex, PoisonError};

use super::lease::Lease;
use crate::store::{Expected, StoredVersion};

/// What a lock's holder knows of its session.
#[derive(Debug, Default)]
pub(super) struct Holder {
    _lease: Option<Lease>,
    /// Writes of unknown outcome, and what each of them expected.
    unsettled: Mutex<Option<(Expected, Vec<StoredVersion>)>>,
}

impl Holder {
    pub(super) fn new(lease: Lease) -> Self {
        Self { _lease: Some(lease), ..Self::default() }
    }

    /// Before a write of which nothing may be heard.
    pub(super) fn begins(&self, expected: &Expected, version: &StoredVersion) {
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *unsettled {
            Some((same, versions)) if same == expected => versions.push(version.clone()),
            other => *other = Some((expected.clone(), vec![version.clone()])),
        }
    }

    /// After a write that was accepted: those of unknown outcome before it, which were not accepted, or were written over.
    pub(super) fn settles(&self, accepted: &StoredVersion) -> Vec<StoredVersion> {
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (_, mut versions) = unsettled.unwrap_or((Expected::Any, Vec::new()));
        versions.retain(|version| version != accepted);
        versions
    }

    /// Whether this is what a write of ours left which expected the same and of which nothing was heard.
    pub(super) fn wrote(&self, expected: &Expected, is: impl Fn(&StoredVersion) -> bool) -> bool {
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        unsettled.as_ref().is_some_and(|(same, versions)| same == expected && versions.iter().any(is))
    }
}
