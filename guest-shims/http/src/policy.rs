//! The policy that a request asks for, bounded by the operator's grant.

use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts,
    contract::ContractPolicy,
    grant::{Beyond, ChangeError, GrantParts, change_policy},
    session::{Checkpoints, OnUnwind, SessionPolicy},
    with_limits,
};
use glovebox_guest as wit;
use serde_json::{Map, Value};

use crate::http::Problem;

/// Names in a policy that are tables and are merged entry by entry.
const TABLES: [&str; 2] = ["limits", "session"];

/// Overrides limits with the given ones.
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

/// Converts the provider's default policy.
pub(crate) fn provided(policy: wit::Policy) -> ContractPolicy {
    let wit::Policy { limits: given, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = policy;
    let mut limits = Limits::default();
    if let Some(given) = given {
        with_limits!(limits_from_wit, given, limits);
    }
    ContractPolicy {
        limits,
        clock: match clock {
            Some(wit::Clock::Fixed(time_ns)) => Clock::Fixed(time_ns),
            Some(wit::Clock::Host) | None => Clock::Host,
        },
        entropy: match entropy {
            Some(wit::Entropy::Seeded(seed)) => Entropy::Seeded(seed),
            Some(wit::Entropy::Host) | None => Entropy::Host,
        },
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default().into_iter().collect(),
        inject_setup: inject_setup.unwrap_or(true),
        auto_persist_globals: auto_persist_globals.unwrap_or(false),
        session: session.map(session_policy).unwrap_or_default(),
    }
}

fn session_policy(policy: wit::SessionPolicy) -> SessionPolicy {
    let mut session = SessionPolicy::default();
    session.checkpoints = match policy.checkpoints {
        Some(wit::Checkpoints::Always) => Checkpoints::Always,
        Some(wit::Checkpoints::Every(count)) => Checkpoints::Every(count),
        Some(wit::Checkpoints::Never) => Checkpoints::Never,
        Some(wit::Checkpoints::Auto) | None => Checkpoints::Auto,
    };
    session.checkpoint_auto_bytes = policy.checkpoint_auto_bytes.unwrap_or(session.checkpoint_auto_bytes);
    session.checkpoints_retained = policy.checkpoints_retained.unwrap_or(session.checkpoints_retained);
    session.on_unwind = match policy.on_unwind {
        Some(wit::OnUnwind::End) => OnUnwind::End,
        Some(wit::OnUnwind::RollBack) | None => OnUnwind::RollBack,
    };
    session
}

/// Converts a policy to the contract's request.
pub(crate) fn asked(policy: &ContractPolicy) -> wit::Policy {
    let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = policy;
    wit::Policy {
        limits: Some(with_limits!(limits_into_wit, limits)),
        clock: Some(match *clock {
            Clock::Host => wit::Clock::Host,
            Clock::Fixed(time_ns) => wit::Clock::Fixed(time_ns),
        }),
        entropy: Some(match *entropy {
            Entropy::Host => wit::Entropy::Host,
            Entropy::Seeded(seed) => wit::Entropy::Seeded(seed),
        }),
        args: Some(args.clone()),
        env: Some(env.clone().into_iter().collect()),
        inject_setup: Some(*inject_setup),
        auto_persist_globals: Some(*auto_persist_globals),
        session: Some(wit::SessionPolicy {
            checkpoints: Some(match session.checkpoints {
                Checkpoints::Auto => wit::Checkpoints::Auto,
                Checkpoints::Always => wit::Checkpoints::Always,
                Checkpoints::Every(count) => wit::Checkpoints::Every(count),
                Checkpoints::Never => wit::Checkpoints::Never,
            }),
            checkpoint_auto_bytes: Some(session.checkpoint_auto_bytes),
            checkpoints_retained: Some(session.checkpoints_retained),
            on_unwind: Some(match session.on_unwind {
                OnUnwind::RollBack => wit::OnUnwind::RollBack,
                OnUnwind::End => wit::OnUnwind::End,
            }),
        }),
    }
}

/// Applies changes to a policy. `changes` is an object with the names of a policy file.
pub(crate) fn changed(policy: &ContractPolicy, changes: &Map<String, Value>) -> Result<ContractPolicy, Problem> {
    let form = |error: serde_json::Error| Problem::policy(format!("`policy`: {error}"));
    let mut value = serde_json::to_value(policy).map_err(form)?;
    change_policy(&mut value, changes, &TABLES).map_err(|error| match error {
        ChangeError::NoTable(name) => Problem::policy(format!("`policy`: `{name}` is an object")),
        ChangeError::Unknown(name) => {
            let name: String = name.chars().take(100).collect();
            Problem::policy(format!("`policy.{}` cannot be set here", glovebox_vfs::escaped(&name)))
        }
    })?;
    let policy: ContractPolicy = serde_json::from_value(value).map_err(form)?;
    let ContractPolicy { limits, session, args, env, .. } = &policy;
    PolicyParts { limits, session, args, env }.check().map_err(|error| Problem::policy(error.to_string()))?;
    Ok(policy)
}

/// Applies changes to the granted policy, and rejects a result that exceeds it.
pub(crate) fn narrowed(granted: &ContractPolicy, asked: &Map<String, Value>) -> Result<ContractPolicy, Problem> {
    let policy = changed(granted, asked)?;
    match parts(granted).first_beyond(&parts(&policy)) {
        None => Ok(policy),
        Some(Beyond { key, asked, granted }) => {
            Err(Problem::policy(format!("`policy.{key}` is {asked}; {granted} is granted at most")))
        }
    }
}

fn parts(policy: &ContractPolicy) -> GrantParts<'_> {
    let ContractPolicy { limits, clock, entropy, .. } = policy;
    GrantParts { limits, clock, entropy }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the policy of a closed provider, with less fuel.
    fn granted() -> ContractPolicy {
        let empty = wit::Policy {
            limits: None,
            clock: Some(wit::Clock::Fixed(5)),
            entropy: Some(wit::Entropy::Seeded(0)),
            args: None,
            env: None,
            inject_setup: None,
            auto_persist_globals: None,
            session: None,
        };
        let Value::Object(changes) = json!({ "limits": { "fuel": 1_000_000_000_u64 } }) else { unreachable!() };
        changed(&provided(empty), &changes).unwrap()
    }

    fn asked_for(policy: Value) -> Result<ContractPolicy, String> {
        let Value::Object(policy) = policy else { panic!("{policy} is no object") };
        narrowed(&granted(), &policy).map_err(|problem| format!("{}: {}", problem.kind, problem.detail))
    }

    #[test]
    fn a_request_narrows_its_policy_and_keeps_what_it_does_not_name() {
        let policy = asked_for(json!({
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
    fn what_is_beyond_the_grant_or_not_there_is_named() {
        for (policy, said) in [
            (
                json!({ "limits": { "fuel": 1_000_000_001_u64 } }),
                "`policy.limits.fuel` is 1000000001; 1000000000 is granted",
            ),
            (json!({ "limits": { "memory_bytes": 134_217_729 } }), "`policy.limits.memory_bytes`"),
            (json!({ "limits": { "fule": 1 } }), "fule"),
            (json!({ "limits": { "fuel": -1 } }), "integer `-1`"),
            (json!({ "limits": { "fuel": 1.5 } }), "invalid type"),
            (json!({ "limits": 7 }), "`limits` is an object"),
            (json!({ "limits": [9_000_000_000_000_000_000_u64] }), "`limits` is an object"),
            (json!({ "session": null }), "`session` is an object"),
            (json!({ "session": { "checkpoints_retained": 0 } }), "checkpoints_retained"),
            (json!({ "clock": "host" }), "`policy.clock` is `host`"),
            (json!({ "clock": { "host": null } }), "`policy.clock` is `host`"),
            (json!({ "entropy": "host" }), "`policy.entropy` is `host`"),
            (json!({ "network": { "allow": ["https://a.example"] } }), "`policy.network` cannot be set here"),
            (json!({ "metering": "none" }), "`policy.metering` cannot be set here"),
            (json!({ "workspace": "/etc" }), "`policy.workspace` cannot be set here"),
            (json!({ "env": { "A=B": "c" } }), "A=B"),
            (json!({ "args": ["\0"] }), "NUL"),
        ] {
            let error = asked_for(policy.clone()).unwrap_err();
            assert!(error.starts_with("invalid-policy: ") && error.contains(said), "{policy}: {error}");
        }
    }

    #[test]
    fn what_the_provider_is_told_is_what_was_asked_for() {
        let policy = asked_for(json!({
            "limits": { "stdout_bytes": 7 }, "auto_persist_globals": true, "args": ["a"], "env": { "A": "b" },
            "session": { "checkpoints": { "every": 3 }, "on_unwind": "end" },
        }))
        .unwrap();
        assert_eq!(provided(asked(&policy)), policy);
    }
}
