//! Session names in a fleet, and the engine services they map to.

use std::{fmt, str::FromStr};

use glovebox_sessions::{SessionId, SessionIdError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Name prefix of the session services. Two hex digits follow.
pub(crate) const SERVICE_PREFIX: &str = "glovebox-sessions-";

/// Name prefix of the image services. The start of the image's identity follows.
pub(crate) const IMAGE_PREFIX: &str = "glovebox-image-";

/// Separates scope and id. Not allowed in ids; allowed in blob names.
const SEPARATOR: char = '!';

/// A session's name in a fleet: an id, and optionally the scope (such as a tenant) in which the id is unique. Its text form is `SCOPE!ID`, or
/// `ID` without a scope. Both parts follow the rules of [`SessionId`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FleetName {
    scope: Option<SessionId>,
    id: SessionId,
}

/// Invalid text for a session name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session's name in a fleet must be `ID` or `SCOPE!ID`")]
pub struct FleetNameError(#[from] SessionIdError);

impl FleetName {
    /// Creates a name in this scope.
    #[must_use]
    pub fn new(scope: Option<SessionId>, id: SessionId) -> Self {
        Self { scope, id }
    }

    /// The id within the scope.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The scope, if the name has one.
    #[must_use]
    pub fn scope(&self) -> Option<&SessionId> {
        self.scope.as_ref()
    }

    /// The engine service of this session: one of 256 identical services, chosen by a digest of the name. A balancer sees the service but not the
    /// object. Balancing by service keeps a session on the node that has it in memory for as long as that node is up.
    pub(crate) fn service(&self) -> String {
        let digest = Sha256::digest(self.to_string());
        service(digest.first().copied().unwrap_or_default())
    }
}

/// The name of one session service.
pub(crate) fn service(number: u8) -> String {
    format!("{SERVICE_PREFIX}{number:02x}")
}

/// The service of the image with this digest.
pub(crate) fn image_service(image_sha256: &str) -> String {
    format!("{IMAGE_PREFIX}{}", image_sha256.get(..32).unwrap_or(image_sha256))
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scope) = &self.scope {
            write!(f, "{scope}{SEPARATOR}")?;
        }
        self.id.fmt(f)
    }
}

impl FromStr for FleetName {
    type Err = FleetNameError;

    fn from_str(text: &str) -> Result<Self, FleetNameError> {
        Ok(match text.split_once(SEPARATOR) {
            Some((scope, id)) => Self { scope: Some(SessionId::new(scope)?), id: SessionId::new(id)? },
            None => Self { scope: None, id: SessionId::new(text)? },
        })
    }
}

impl TryFrom<String> for FleetName {
    type Error = FleetNameError;

    fn try_from(text: String) -> Result<Self, FleetNameError> {
        text.parse()
    }
}

impl From<FleetName> for String {
    fn from(name: FleetName) -> Self {
        name.to_string()
    }
}

impl From<SessionId> for FleetName {
    fn from(id: SessionId) -> Self {
        Self { scope: None, id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_it_was_written_and_others_are_refused() {
        for text in ["notes", "team-a!notes", &format!("{}!{}", "s".repeat(64), "i".repeat(64))] {
            assert_eq!(text.parse::<FleetName>().unwrap().to_string(), text);
        }
        for text in ["", "!notes", "team!", "a!b!c", "a/b", "a b", &"i".repeat(65), "../x", "team!.x"] {
            assert!(text.parse::<FleetName>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_spread_over_all_services_and_stay_where_they_are() {
        let services: std::collections::BTreeSet<String> =
            (0..4_000).map(|n| format!("team!s{n}").parse::<FleetName>().unwrap().service()).collect();
        assert_eq!(services.len(), 256);
        // Running fleets depend on this mapping: it must never change.
        assert_eq!("notes".parse::<FleetName>().unwrap().service(), "glovebox-sessions-ab");
    }
}
