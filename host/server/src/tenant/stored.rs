//! What the store says of a session.

use glovebox::{SessionId, SessionRecord, SessionsError};

use super::{Target, Tenant, generation};
use crate::ServiceError;

impl Tenant {
    /// Called on a thread that may block.
    pub(super) fn record(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let record = self.0.sessions.record(id)?;
        Ok(record.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?)
    }

    /// Refuses a session of another generation than is expected, and one whose runtime is not served. Called on a thread that may block, in the
    /// session's turn.
    pub(super) fn check(&self, target: &Target) -> Result<(), ServiceError> {
        let record = self.check_generation(target)?;
        self.0.service.runtime(Some(record.language), Some(&record.runtime)).map(drop)
    }

    /// The first half of [`check`](Self::check), for what needs no runtime.
    pub(super) fn check_generation(&self, Target { id, expected }: &Target) -> Result<SessionRecord, ServiceError> {
        let record = self.record(id)?;
        if let Some(expected) = expected {
            let has = generation(&record);
            if has != *expected {
                return Err(ServiceError::Generation { expected: expected.clone(), has });
            }
        }
        Ok(record)
    }
}
