//! The operator's settings, in environment variables.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{contract::ContractPolicy, hibernate::SessionKey};
use serde_json::{Map, Value};

use crate::{http::Problem, policy, router::Token};

/// The policy granted to executions: JSON with the names of a policy file, applied to the provider's default.
pub(crate) const POLICY: &str = "GLOVEBOX_POLICY";
/// The key that seals sessions: 32 to 64 random bytes in base64.
pub(crate) const SESSION_KEY: &str = "GLOVEBOX_SESSION_KEY";
/// The token that requests must carry.
pub(crate) const TOKEN: &str = "GLOVEBOX_TOKEN";
/// Maximum size of a request's body in bytes.
pub(crate) const BODY_BYTES: &str = "GLOVEBOX_BODY_BYTES";
/// Maximum size of a session's state in bytes.
pub(crate) const STATE_BYTES: &str = "GLOVEBOX_STATE_BYTES";

/// Equal to the default of `glovebox serve`.
const DEFAULT_BODY_BYTES: usize = 48 << 20;
/// A body has room for three quarters of its size, due to base64.
const DEFAULT_STATE_BYTES: usize = 32 << 20;

/// By default, hosts pass lists of at most 128 MiB between components.
const MAX_BYTES: usize = 128 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The default policy of executions, which is also the maximum.
    pub(crate) policy: ContractPolicy,
    /// `None` disables sessions.
    pub(crate) key: Option<SessionKey>,
    /// `None` lets every client in.
    pub(crate) token: Option<Token>,
    pub(crate) body_bytes: usize,
    pub(crate) state_bytes: usize,
}

impl Settings {
    /// Parses the environment. `provided` is the provider's default policy.
    pub(crate) fn read(environment: &[(String, String)], provided: &ContractPolicy) -> Result<Self, Problem> {
        // An empty variable counts as unset, because some hosts cannot omit one.
        let given = |name: &str| {
            environment
                .iter()
                .find(|(given, value)| given == name && !value.is_empty())
                .map(|(_, value)| value.as_str())
        };
        let wrong = |name: &str, reason: &dyn std::fmt::Display| Problem::misconfigured(format!("`{name}`: {reason}"));
        let policy = match given(POLICY) {
            None => provided.clone(),
            Some(text) => {
                let changes: Map<String, Value> = serde_json::from_str(text).map_err(|error| wrong(POLICY, &error))?;
                policy::changed(provided, &changes).map_err(|problem| wrong(POLICY, &problem.detail))?
            }
        };
        let key = given(SESSION_KEY).map(|text| {
            // The error must not contain the bytes.
            let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| wrong(SESSION_KEY, &"it is not base64"))?;
            SessionKey::new(&bytes).map_err(|error| wrong(SESSION_KEY, &error))
        });
        let bytes = |name: &str, default: usize| match given(name) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(bytes @ 1..=MAX_BYTES) => Ok(bytes),
                _ => Err(wrong(name, &format!("give a number of bytes from 1 to {MAX_BYTES}"))),
            },
        };
        Ok(Self {
            policy,
            key: key.transpose()?,
            token: given(TOKEN).map(Token::new),
            body_bytes: bytes(BODY_BYTES, DEFAULT_BODY_BYTES)?,
            state_bytes: bytes(STATE_BYTES, DEFAULT_STATE_BYTES)?,
        })
    }

    /// Returns the key. Without a key, there are no sessions.
    pub(crate) fn session_key(&self) -> Result<&SessionKey, Problem> {
        self.key.as_ref().ok_or_else(|| {
            Problem::unsupported(format!(
                "sessions are unavailable without a key to seal their state; set the environment variable `{SESSION_KEY}` of the component to 32 to 64 random bytes in base64"
            ))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use glovebox_core::{Clock, Entropy, Limits, session::SessionPolicy};

    use super::*;

    pub(crate) fn provided() -> ContractPolicy {
        ContractPolicy {
            limits: Limits::default(),
            clock: Clock::Fixed(0),
            entropy: Entropy::Seeded(0),
            args: Vec::new(),
            env: Default::default(),
            inject_setup: true,
            auto_persist_globals: false,
            session: SessionPolicy::default(),
        }
    }

    pub(crate) fn read(environment: &[(&str, &str)]) -> Result<Settings, Problem> {
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::read(&environment, &provided())
    }

    #[test]
    fn without_any_there_are_defaults_and_no_sessions() {
        for environment in [&[][..], &[(SESSION_KEY, ""), (TOKEN, ""), (POLICY, ""), (BODY_BYTES, "")]] {
            let settings = read(environment).unwrap();
            assert_eq!(settings.policy, provided());
            assert_eq!((settings.body_bytes, settings.state_bytes), (50_331_648, 33_554_432));
            assert!(settings.token.is_none());
            let problem = settings.session_key().unwrap_err();
            assert_eq!((problem.status, problem.kind), (422, "unsupported"));
            assert!(problem.detail.contains(SESSION_KEY), "{problem:?}");
        }
    }

    #[test]
    fn what_is_set_holds() {
        let key = BASE64_STANDARD.encode([7; 32]);
        let settings = read(&[
            (SESSION_KEY, &format!("{key}\n")),
            (POLICY, r#"{"limits": {"fuel": 5000000000}}"#),
            (BODY_BYTES, "1000"),
            (STATE_BYTES, "134217728"),
        ])
        .unwrap();
        assert_eq!(settings.policy.limits.fuel, 5_000_000_000);
        assert_eq!((settings.body_bytes, settings.state_bytes), (1_000, 134_217_728));
        assert!(settings.session_key().is_ok());
    }

    #[test]
    fn what_cannot_be_is_named_and_a_key_is_never_repeated() {
        let short = BASE64_STANDARD.encode([7; 31]);
        for (name, value, said) in [
            (SESSION_KEY, short.as_str(), "31 bytes"),
            (SESSION_KEY, "c2VjcmV0!", "it is not base64"),
            (POLICY, "limits = 1", "expected"),
            (POLICY, "[]", "expected a map"),
            (POLICY, r#"{"limits": {"fule": 1}}"#, "fule"),
            (POLICY, r#"{"workspace": "/"}"#, "workspace"),
            (BODY_BYTES, "0", "1 to 134217728"),
            (BODY_BYTES, "134217729", "1 to 134217728"),
            (STATE_BYTES, "1 MiB", "1 to 134217728"),
        ] {
            let problem = read(&[(name, value)]).unwrap_err();
            assert_eq!((problem.status, problem.kind), (500, "misconfigured"));
            assert!(problem.detail.contains(name) && problem.detail.contains(said), "{value}: {problem:?}");
            assert!(name != SESSION_KEY || !problem.detail.contains(value), "{problem:?}");
        }
    }
}
