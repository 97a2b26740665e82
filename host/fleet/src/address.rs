//! The names of sessions in a fleet, the engine services they map to, and the URL of a fleet.

use std::{fmt, str::FromStr};

use glovebox::escaped;
use glovebox_runtimes::Digest;
use glovebox_sessions::{SessionId, SessionIdError};
use serde::{Deserialize, Serialize};
use url::Url;

/// The name prefix of the session services. Two hex digits follow.
pub(crate) const SERVICE_PREFIX: &str = "glovebox-sessions-";

/// The name prefix of the image services. The first 32 digits of the image's identity follow.
pub(crate) const IMAGE_PREFIX: &str = "glovebox-image-";

/// The separator between scope and ID. IDs cannot contain this character, but blob names can.
const SEPARATOR: char = '!';

/// A session's name in a fleet: an ID, and optionally the scope (such as a tenant) in which the ID is unique. Its text
/// form is `SCOPE!ID`, or `ID` without a scope. Both parts follow the rules of [`SessionId`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FleetName {
    scope: Option<SessionId>,
    id: SessionId,
}

/// The error for text that is not a valid session name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session's name in a fleet must be `ID` or `SCOPE!ID`")]
pub struct FleetNameError(#[from] SessionIdError);

impl FleetName {
    /// Creates a name from an optional scope and an ID.
    pub fn new(scope: Option<SessionId>, id: SessionId) -> Self {
        Self { scope, id }
    }

    /// Returns the ID within the scope.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the scope, if the name has one.
    pub fn scope(&self) -> Option<&SessionId> {
        self.scope.as_ref()
    }

    /// Returns the engine service of this session: one of 256 identical services, chosen by a digest of the name. A
    /// load balancer sees only the service, not the object. Balancing by service therefore keeps a session on the node
    /// that has it in memory, as long as that node is up.
    pub(crate) fn service(&self) -> String {
        let [number, ..] = *Digest::of(self.to_string().as_bytes()).as_bytes();
        service(number)
    }
}

/// Returns the name of the session service with this number.
pub(crate) fn service(number: u8) -> String {
    format!("{SERVICE_PREFIX}{number:02x}")
}

/// Returns the name of the service for the image with this digest.
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

// Restate's default ports.
const INGRESS_PORT: u16 = 8080;
const ADMIN_PORT: u16 = 9070;

/// The URL of a fleet's engine: `restate://HOST[:INGRESS][?admin=PORT]`. The ports default to Restate's, 8080 and 9070.
/// `restates://` uses TLS.
///
/// ```
/// use glovebox_fleet::FleetUrl;
///
/// let url: FleetUrl = "restate://engine.internal:8080?admin=9071".parse()?;
/// assert_eq!(url.ingress(), "http://engine.internal:8080");
/// assert_eq!(url.admin(), "http://engine.internal:9071");
/// # Ok::<(), glovebox_fleet::FleetUrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetUrl {
    is_tls: bool,
    host: String,
    ingress: u16,
    admin: u16,
}

/// The error for text that is not a valid fleet URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{url}` is not the URL of a fleet: {reason}; write `restate://HOST`, or `restate://HOST:PORT?admin=PORT` if the ports are not {INGRESS_PORT} and {ADMIN_PORT}",
    url = escaped(.url)
)]
pub struct FleetUrlError {
    url: String,
    reason: &'static str,
}

impl FleetUrl {
    /// Maximum length of a URL, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Returns the URL of an engine on 127.0.0.1.
    pub fn local(ingress: u16, admin: u16) -> Self {
        Self { is_tls: false, host: "127.0.0.1".to_owned(), ingress, admin }
    }

    /// Returns the base URL of the ingress.
    pub fn ingress(&self) -> String {
        self.base(self.ingress)
    }

    /// Returns the base URL of the admin API.
    pub fn admin(&self) -> String {
        self.base(self.admin)
    }

    fn base(&self, port: u16) -> String {
        format!("{}://{}:{port}", if self.is_tls { "https" } else { "http" }, self.host)
    }
}

impl fmt::Display for FleetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_tls, host, ingress, admin } = self;
        write!(f, "{}://{host}:{ingress}?admin={admin}", if *is_tls { "restates" } else { "restate" })
    }
}

impl FromStr for FleetUrl {
    type Err = FleetUrlError;

    fn from_str(text: &str) -> Result<Self, FleetUrlError> {
        let wrong = |reason| FleetUrlError { url: text.chars().take(Self::MAX_BYTES).collect(), reason };
        if text.len() > Self::MAX_BYTES {
            return Err(wrong("it is longer than 512 bytes"));
        }
        let url = Url::parse(text).map_err(|_| wrong("it is not a URL"))?;
        let is_tls = match url.scheme() {
            "restate" => false,
            "restates" => true,
            _ => return Err(wrong("its scheme is not `restate` or `restates`")),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
        // For schemes other than HTTP, `Url` accepts percent-encoded hosts, which HTTP clients reject.
        let is_in_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if !host.starts_with('[') && !host.bytes().all(is_in_host) {
            return Err(wrong("its host may contain only ASCII letters, digits, `-`, `.` and `_`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user name or password"));
        }
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(wrong("it has a path"));
        }
        let mut admin = ADMIN_PORT;
        for (name, value) in url.query_pairs() {
            match (&*name, value.parse()) {
                ("admin", Ok(port)) => admin = port,
                ("admin", Err(_)) => return Err(wrong("`admin` is not a port number")),
                _ => return Err(wrong("it has a parameter other than `admin`")),
            }
        }
        Ok(Self { is_tls, host: host.to_owned(), ingress: url.port().unwrap_or(INGRESS_PORT), admin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleet_names_round_trip_or_are_rejected() {
        for text in ["notes", "team-a!notes", &format!("{}!{}", "s".repeat(64), "i".repeat(64))] {
            assert_eq!(text.parse::<FleetName>().unwrap().to_string(), text);
        }
        for text in ["", "!notes", "team!", "a!b!c", "a/b", "a b", &"i".repeat(65), "../x", "team!.x"] {
            assert!(text.parse::<FleetName>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_map_stably_over_all_services() {
        let services: std::collections::BTreeSet<String> =
            (0..4_000).map(|n| format!("team!s{n}").parse::<FleetName>().unwrap().service()).collect();
        assert_eq!(services.len(), 256);
        // Running fleets depend on this mapping: it must never change.
        assert_eq!("notes".parse::<FleetName>().unwrap().service(), "glovebox-sessions-ab");
    }

    #[test]
    fn fleet_url_with_both_ports_round_trips() {
        for (text, ingress, admin) in [
            ("restate://engine", "http://engine:8080", "http://engine:9070"),
            ("restate://127.0.0.1:18080?admin=19070", "http://127.0.0.1:18080", "http://127.0.0.1:19070"),
            ("restates://e.example/", "https://e.example:8080", "https://e.example:9070"),
            ("restate://[::1]:1?admin=2", "http://[::1]:1", "http://[::1]:2"),
            ("restate://fleet_engine-1", "http://fleet_engine-1:8080", "http://fleet_engine-1:9070"),
        ] {
            let url: FleetUrl = text.parse().unwrap();
            assert_eq!((url.ingress(), url.admin()), (ingress.to_owned(), admin.to_owned()), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn invalid_fleet_url_error_has_a_correction() {
        let long = format!("restate://{}", "a".repeat(FleetUrl::MAX_BYTES));
        for (text, expected) in [
            ("http://engine", "its scheme is not"),
            ("engine:8080", "its scheme is not"),
            ("restate://", "no host"),
            ("restate://user@engine", "a user"),
            ("restate://a%20b", "its host may contain only ASCII letters"),
            ("restate://\u{e9}.example", "its host may contain only ASCII letters"),
            ("restate://a,b", "its host may contain only ASCII letters"),
            ("restate://engine/x", "a path"),
            ("restate://engine?admin=x", "not a port"),
            ("restate://engine?admin=65536", "not a port"),
            ("restate://engine?token=x", "a parameter other"),
            ("", "it is not a URL"),
            (&long, "longer than"),
        ] {
            let error = text.parse::<FleetUrl>().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("write `restate://HOST`"), "{text}: {error}");
        }
    }
}
