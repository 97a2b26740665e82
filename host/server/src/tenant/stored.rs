//! Records of sessions in the store.

use glovebox_sessions::{SessionId, SessionRecord, SessionsError};

use super::{Target, Tenant, generation};
use crate::ServiceError;

impl Tenant {
    /// Returns the stored record. Called on a blocking thread.
    pub(super) fn record(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let record = self.0.sessions.record(id)?;
        Ok(record.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?)
    }

    /// Checks a session's generation and that its runtime is served. Called on a blocking thread that holds the
    /// session's turn.
    pub(super) fn check(&self, target: &Target) -> Result<(), ServiceError> {
        let record = self.check_generation(target)?;
        self.0.service.runtime(Some(record.language), Some(&record.runtime)).map(drop)
    }

    /// Checks only the generation, for operations that need no runtime.
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
