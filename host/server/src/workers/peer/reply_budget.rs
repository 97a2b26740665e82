//! The memory budget for replies.

use super::frame::Header;
use crate::{
    Service, ServiceError,
    byte_budget::{ByteBudget, Room},
};

/// Maximum length in bytes of a reply that is read even if the budget is exhausted. The JSON part counts twice. An
/// error would be as long.
pub(super) const SHORT_REPLY_BYTES: usize = 4 << 10;

/// The memory budget for the replies to a tenant's calls, and for the calls that the server answers for the tenant.
#[derive(Clone, Debug)]
pub(crate) struct ReplyBudget {
    pub(crate) bytes: ByteBudget,
    pub(crate) tenant: String,
}

impl ReplyBudget {
    /// Returns the budget of a tenant, or `None` if the service has none.
    pub(crate) fn of(service: &Service, tenant: &str) -> Option<Self> {
        Some(Self { bytes: service.reply_budget()?.clone(), tenant: tenant.to_owned() })
    }

    /// Reserves memory for a reply and the values that are parsed from its JSON, without waiting. Reserves nothing for
    /// a short reply.
    pub(super) fn reserve(&self, header: &Header) -> Result<Option<Room>, ServiceError> {
        let [json, bytes] = [header.json, header.bytes].map(|part| usize::try_from(part).unwrap_or(usize::MAX));
        let len = json.saturating_mul(2).saturating_add(bytes);
        if len <= SHORT_REPLY_BYTES {
            return Ok(None);
        }
        self.bytes.reserve(Some(&self.tenant), len).map(Some).map_err(|_| ServiceError::NoRoom)
    }
}
