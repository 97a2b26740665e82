//! The operator's settings from environment variables, and the policy of a request, which must not exceed the
//! operator's grant.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts,
    contract::ContractPolicy,
    grant::{ChangeError, GrantExcess, GrantParts, change_policy},
    hibernate::SessionKey,
    session::{Checkpoints, OnUnwind, SessionPolicy},
    with_limits,
};
use glovebox_guest as wit;
use serde_json::{Map, Value};

use crate::{answer::same_cases, http::Problem, router::Token};

/// The names of tables in a policy. Tables are merged entry by entry.
const TABLES: [&str; 2] = ["limits", "session"];

/// Overwrites limits with the values that the contract's policy record sets.
macro_rules! limits_from_wit {
    ($given:expr, $limits:expr, $($name:ident),*) => {{
        let wit::Limits { $($name),* } = $given;
        $(if let Some(value) = $name {
            $limits.$name = value;
        })*
    }};
}

/// Builds the contract's record of limits, field by field.
macro_rules! limits_into_wit {
    ($limits:expr, $($name:ident),*) => {
        wit::Limits { $($name: Some($limits.$name)),* }
    };
}

same_cases! {
    clock_of: wit::Clock => Clock { Host, Fixed(time_ns) }
    entropy_of: wit::Entropy => Entropy { Host, Seeded(seed) }
    checkpoints_of: wit::Checkpoints => Checkpoints { Auto, Always, Every(count), Never }
    on_unwind_of: wit::OnUnwind => OnUnwind { RollBack, End }
    clock_into_wit: Clock => wit::Clock { Host, Fixed(time_ns) }
    entropy_into_wit: Entropy => wit::Entropy { Host, Seeded(seed) }
    checkpoints_into_wit: Checkpoints => wit::Checkpoints { Auto, Always, Every(count), Never }
    on_unwind_into_wit: OnUnwind => wit::OnUnwind { RollBack, End }
}

/// Converts the provider's default policy.
pub(crate) fn from_provider(policy: wit::Policy) -> ContractPolicy {
    let wit::Policy { limits: given, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = policy;
    let mut limits = Limits::default();
    if let Some(given) = given {
        with_limits!(limits_from_wit, given, limits);
    }
    ContractPolicy {
        limits,
        clock: clock.map_or(Clock::Host, clock_of),
        entropy: entropy.map_or(Entropy::Host, entropy_of),
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default().into_iter().collect(),
        inject_setup: inject_setup.unwrap_or(true),
        auto_persist_globals: auto_persist_globals.unwrap_or(false),
        session: session.map(session_policy).unwrap_or_default(),
    }
}

fn session_policy(policy: wit::SessionPolicy) -> SessionPolicy {
    let mut session = SessionPolicy::default();
    session.checkpoints = policy.checkpoints.map_or(Checkpoints::Auto, checkpoints_of);
    session.checkpoint_auto_bytes = policy.checkpoint_auto_bytes.unwrap_or(session.checkpoint_auto_bytes);
    session.checkpoints_retained = policy.checkpoints_retained.unwrap_or(session.checkpoints_retained);
    session.on_unwind = policy.on_unwind.map_or(OnUnwind::RollBack, on_unwind_of);
    session
}

/// Converts a policy to the contract's type.
pub(crate) fn to_wit(policy: &ContractPolicy) -> wit::Policy {
    let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = policy;
    wit::Policy {
        limits: Some(with_limits!(limits_into_wit, limits)),
        clock: Some(clock_into_wit(*clock)),
        entropy: Some(entropy_into_wit(*entropy)),
        args: Some(args.clone()),
        env: Some(env.clone().into_iter().collect()),
        inject_setup: Some(*inject_setup),
        auto_persist_globals: Some(*auto_persist_globals),
        session: Some(wit::SessionPolicy {
            checkpoints: Some(checkpoints_into_wit(session.checkpoints)),
            checkpoint_auto_bytes: Some(session.checkpoint_auto_bytes),
            checkpoints_retained: Some(session.checkpoints_retained),
            on_unwind: Some(on_unwind_into_wit(session.on_unwind)),
        }),
    }
}

/// Applies changes to a policy. `changes` is an object with the names used in policy files.
pub(crate) fn apply_changes(policy: &ContractPolicy, changes: &Map<String, Value>) -> Result<ContractPolicy, Problem> {
    let form = |error: serde_json::Error| Problem::policy(format!("`policy`: {error}"));
    let mut value = serde_json::to_value(policy).map_err(form)?;
    change_policy(&mut value, changes, &TABLES).map_err(|error| match error {
        ChangeError::NoTable(name) => Problem::policy(format!("`policy`: `{name}` must be an object")),
        ChangeError::Unknown(name) => {
            let name: String = name.chars().take(100).collect();
            Problem::policy(format!("`policy.{}` is not supported; remove it", glovebox_vfs::escaped(&name)))
        }
    })?;
    let policy: ContractPolicy = serde_json::from_value(value).map_err(form)?;
    let ContractPolicy { limits, session, args, env, .. } = &policy;
    PolicyParts { limits, session, args, env }.check().map_err(|error| Problem::policy(error.to_string()))?;
    Ok(policy)
}

/// Applies changes to the granted policy. Rejects a result that exceeds the grant.
pub(crate) fn narrow_policy(
    granted: &ContractPolicy,
    requested: &Map<String, Value>,
) -> Result<ContractPolicy, Problem> {
    let policy = apply_changes(granted, requested)?;
    match parts(granted).first_excess(&parts(&policy)) {
        None => Ok(policy),
        Some(GrantExcess { key, requested, granted }) => {
            Err(Problem::policy(format!("`policy.{key}` is {requested}; the maximum is {granted}")))
        }
    }
}

fn parts(policy: &ContractPolicy) -> GrantParts<'_> {
    let ContractPolicy { limits, clock, entropy, .. } = policy;
    GrantParts { limits, clock, entropy }
}

// The names of the environment variables that configure the component, each with a description of its value.

/// The policy that is granted to executions: JSON with the names used in policy files, applied to the provider's
/// default.
pub(crate) const POLICY: &str = "GLOVEBOX_POLICY";
/// The key for sealing sessions: 32 to 64 random bytes in base64.
pub(crate) const SESSION_KEY: &str = "GLOVEBOX_SESSION_KEY";
/// The bearer token that requests must contain.
pub(crate) const TOKEN: &str = "GLOVEBOX_TOKEN";
/// Maximum size of a request body in bytes.
pub(crate) const BODY_BYTES: &str = "GLOVEBOX_BODY_BYTES";
/// Maximum size of a session state in bytes.
pub(crate) const STATE_BYTES: &str = "GLOVEBOX_STATE_BYTES";

/// The default maximum size of a request body, the same as for `glovebox serve`.
const DEFAULT_BODY_BYTES: usize = 48 << 20;
/// The default maximum size of a session state. In base64, such a state takes 43 MiB of a request body's 48 MiB.
const DEFAULT_STATE_BYTES: usize = 32 << 20;

/// The upper bound of both settings, in bytes. By default, hosts pass at most 128 MiB in a list between components.
const MAX_BYTES: usize = 128 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The default policy of executions, which is also the most permissive one.
    pub(crate) policy: ContractPolicy,
    /// The key for sealing sessions. `None` disables sessions.
    pub(crate) key: Option<SessionKey>,
    /// The token that requests must contain. `None` accepts every client.
    pub(crate) token: Option<Token>,
    pub(crate) body_bytes: usize,
    pub(crate) state_bytes: usize,
}

impl Settings {
    /// Parses the environment. `provided` is the provider's default policy.
    pub(crate) fn read(environment: &[(String, String)], provided: &ContractPolicy) -> Result<Self, Problem> {
        // An empty variable is treated as unset, because some hosts cannot omit variables.
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
                apply_changes(provided, &changes).map_err(|problem| wrong(POLICY, &problem.detail))?
            }
        };
        let key = given(SESSION_KEY).map(|text| {
            // The error must not contain the key's bytes.
            let bytes =
                BASE64_STANDARD.decode(text.trim()).map_err(|_| wrong(SESSION_KEY, &"it is not valid base64"))?;
            SessionKey::new(&bytes).map_err(|error| wrong(SESSION_KEY, &error))
        });
        let bytes = |name: &str, default: usize| match given(name) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(bytes @ 1..=MAX_BYTES) => Ok(bytes),
                _ => Err(wrong(name, &format!("use a number of bytes from 1 to {MAX_BYTES}"))),
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

    /// Returns the key for sealing sessions. Fails if sessions are disabled.
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
    use serde_json::json;

    use super::*;

    /// Returns the default policy of a provider without imports, with a lower fuel limit.
    fn granted() -> ContractPolicy {
        let empty = wit::Policy::default().reproducible(5, 0);
        let Value::Object(changes) = json!({ "limits": { "fuel": 1_000_000_000_u64 } }) else { unreachable!() };
        apply_changes(&from_provider(empty), &changes).unwrap()
    }

    fn narrow(policy: Value) -> Result<ContractPolicy, String> {
        let Value::Object(policy) = policy else { panic!("{policy} is not an object") };
        narrow_policy(&granted(), &policy).map_err(|problem| format!("{}: {}", problem.kind, problem.detail))
    }

    #[test]
    fn request_policy_overrides_only_named_fields() {
        let policy = narrow(json!({
            "limits": { "fuel": 1_000_000_000_u64, "timeout_ms": 10 }, "entropy": { "seeded": 7 }, "args": ["a"],
            "env": { "A": "b" }, "session": { "checkpoints_retained": 1 }, "inject_setup": false,
        }))
        .unwrap();
        assert_eq!((policy.limits.fuel, policy.limits.timeout_ms), (1_000_000_000, 10));
        assert_eq!(policy.limits.memory_bytes, Limits::default().memory_bytes);
        assert_eq!((policy.entropy, policy.clock), (Entropy::Seeded(7), Clock::Fixed(5)));
        assert_eq!((policy.session.checkpoints_retained, policy.args.len(), policy.env.len()), (1, 1, 1));
        assert!(!policy.inject_setup);
    }

    #[test]
    fn unknown_or_ungranted_policy_keys_are_named() {
        for (policy, expected) in [
            (
                json!({ "limits": { "fuel": 1_000_000_001_u64 } }),
                "`policy.limits.fuel` is 1000000001; the maximum is 1000000000",
            ),
            (json!({ "limits": { "memory_bytes": 134_217_729 } }), "`policy.limits.memory_bytes`"),
            (json!({ "limits": { "fule": 1 } }), "fule"),
            (json!({ "limits": { "fuel": -1 } }), "integer `-1`"),
            (json!({ "limits": { "fuel": 1.5 } }), "invalid type"),
            (json!({ "limits": 7 }), "`limits` must be an object"),
            (json!({ "limits": [9_000_000_000_000_000_000_u64] }), "`limits` must be an object"),
            (json!({ "session": null }), "`session` must be an object"),
            (json!({ "session": { "checkpoints_retained": 0 } }), "checkpoints_retained"),
            (json!({ "clock": "host" }), "`policy.clock` is `host`"),
            (json!({ "clock": { "host": null } }), "`policy.clock` is `host`"),
            (json!({ "entropy": "host" }), "`policy.entropy` is `host`"),
            (json!({ "network": { "allow": ["https://a.example"] } }), "`policy.network` is not supported"),
            (json!({ "metering": "none" }), "`policy.metering` is not supported"),
            (json!({ "workspace": "/etc" }), "`policy.workspace` is not supported"),
            (json!({ "env": { "A=B": "c" } }), "A=B"),
            (json!({ "args": ["\0"] }), "NUL"),
        ] {
            let error = narrow(policy.clone()).unwrap_err();
            assert!(error.starts_with("invalid-policy: ") && error.contains(expected), "{policy}: {error}");
        }
    }

    #[test]
    fn provider_receives_the_requested_policy() {
        let policy = narrow(json!({
            "limits": { "stdout_bytes": 7 }, "auto_persist_globals": true, "args": ["a"], "env": { "A": "b" },
            "session": { "checkpoints": { "every": 3 }, "on_unwind": "end" },
        }))
        .unwrap();
        assert_eq!(from_provider(to_wit(&policy)), policy);
    }

    pub(crate) fn provided_policy() -> ContractPolicy {
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
        Settings::read(&environment, &provided_policy())
    }

    #[test]
    fn defaults_apply_without_settings() {
        for environment in [&[][..], &[(SESSION_KEY, ""), (TOKEN, ""), (POLICY, ""), (BODY_BYTES, "")]] {
            let settings = read(environment).unwrap();
            assert_eq!(settings.policy, provided_policy());
            assert_eq!((settings.body_bytes, settings.state_bytes), (50_331_648, 33_554_432));
            assert!(settings.token.is_none());
            let problem = settings.session_key().unwrap_err();
            assert_eq!((problem.status, problem.kind), (422, "unsupported"));
            assert!(problem.detail.contains(SESSION_KEY), "{problem:?}");
        }
    }

    #[test]
    fn settings_take_effect() {
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
    fn invalid_settings_are_named_without_the_key() {
        let short = BASE64_STANDARD.encode([7; 31]);
        for (name, value, expected) in [
            (SESSION_KEY, short.as_str(), "31 bytes"),
            (SESSION_KEY, "c2VjcmV0!", "it is not valid base64"),
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
            assert!(problem.detail.contains(name) && problem.detail.contains(expected), "{value}: {problem:?}");
            assert!(name != SESSION_KEY || !problem.detail.contains(value), "{problem:?}");
        }
    }
}
