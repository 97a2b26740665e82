//! The policy that a request asks for, within the one that its tenant is granted.

use glovebox::{BeyondNetwork, Clock, Entropy, Metering, Policy, PolicyError, escaped};
use serde_json::{Map, Value};

/// The names of a policy that a request may set. What names directories of the host is not among them.
const OPEN: [&str; 10] = [
    "limits",
    "clock",
    "entropy",
    "args",
    "env",
    "inject_setup",
    "auto_persist_globals",
    "session",
    "metering",
    "network",
];

/// Those that are tables, and change by their entries.
const TABLES: [&str; 3] = ["limits", "session", "network"];

/// A request's policy was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// It has a name that requests may not set.
    #[error("`policy.{name}` cannot be set by a request; the server's configuration has it", name = escaped(.0))]
    NotOpen(String),
    /// It asks for more than the tenant is granted.
    #[error("`policy.{key}` is {asked}; this token is granted {granted} at most", key = escaped(.key))]
    Beyond {
        /// The name.
        key: String,
        /// What was asked for.
        asked: String,
        /// The most that there is.
        granted: String,
    },
    /// It cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It is not of the form of a policy.
    #[error("`policy`: {0}")]
    Form(String),
}

/// `granted` with what `asked`, an object of the policy's own names, changes in it.
///
/// What was read is held to the grant, and not the JSON it was read from: that can say one thing in several ways.
pub(crate) fn narrowed(granted: &Policy, asked: &Map<String, Value>) -> Result<Policy, GrantError> {
    let mut policy = serde_json::to_value(granted).map_err(form)?;
    for (name, value) in asked {
        if !OPEN.contains(&name.as_str()) {
            return Err(GrantError::NotOpen(name.clone()));
        }
        match (policy.get_mut(name), value) {
            // Tables change by their entries.
            (Some(Value::Object(table)), Value::Object(changes)) if TABLES.contains(&name.as_str()) => {
                table.extend(changes.clone());
            }
            (Some(Value::Object(_)), _) if TABLES.contains(&name.as_str()) => {
                return Err(GrantError::Form(format!("`{name}` is an object")));
            }
            (Some(place), value) => *place = value.clone(),
            (None, _) => return Err(GrantError::NotOpen(name.clone())),
        }
    }
    let policy: Policy = serde_json::from_value(policy).map_err(form)?;
    policy.check()?;
    check_limits(granted, &policy)?;
    check_platform(granted, &policy)?;
    check_network(granted, &policy)?;
    Ok(policy)
}

fn form(error: serde_json::Error) -> GrantError {
    GrantError::Form(error.to_string())
}

/// No limit may be more than what is granted.
fn check_limits(granted: &Policy, asked: &Policy) -> Result<(), GrantError> {
    let numbers = |policy: &Policy| serde_json::to_value(&policy.limits).map_err(form);
    let (granted, asked) = (numbers(granted)?, numbers(asked)?);
    for (key, asked) in asked.as_object().into_iter().flatten() {
        let granted = granted.get(key).unwrap_or(&Value::Null);
        if asked.as_u64() > granted.as_u64() {
            return Err(GrantError::Beyond {
                key: format!("limits.{key}"),
                asked: asked.to_string(),
                granted: granted.to_string(),
            });
        }
    }
    Ok(())
}

/// The host's clock and randomness are to be had only where they are granted, and fuel is counted where the grant counts it.
fn check_platform(granted: &Policy, asked: &Policy) -> Result<(), GrantError> {
    let beyond = |key: &str, asked: &str, granted: &str| {
        Err(GrantError::Beyond { key: key.to_owned(), asked: asked.to_owned(), granted: granted.to_owned() })
    };
    if asked.clock == Clock::Host && granted.clock != Clock::Host {
        return beyond("clock", "`host`", "`fixed`");
    }
    if asked.entropy == Entropy::Host && granted.entropy != Entropy::Host {
        return beyond("entropy", "`host`", "`seeded`");
    }
    if asked.metering == Metering::None && granted.metering != Metering::None {
        return beyond("metering", "`none`", "`fuel`");
    }
    Ok(())
}

/// Nothing of the network may be asked for that is not granted. Secrets that are not for a request are the ones it may leave out.
fn check_network(granted: &Policy, asked: &Policy) -> Result<(), GrantError> {
    match asked.network.beyond(&granted.network)? {
        None => Ok(()),
        Some(BeyondNetwork { key, asked, granted }) => {
            let granted = if granted.is_empty() { "none".to_owned() } else { granted };
            Err(GrantError::Beyond { key: format!("network.{key}"), asked, granted })
        }
    }
}

#[cfg(test)]
mod tests {
    use glovebox::{NetworkPolicy, SecretPolicy};
    use serde_json::json;

    use super::*;

    fn asked(policy: Value) -> Result<Policy, String> {
        let mut granted = Policy::default();
        granted.limits.fuel = 1_000_000_000;
        granted.clock = Clock::Fixed(5);
        let Value::Object(policy) = policy else { panic!("{policy} is no object") };
        narrowed(&granted, &policy).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_narrows_its_policy_and_keeps_what_it_does_not_name() {
        let policy = asked(json!({
            "limits": { "fuel": 1_000_000_000_u64, "timeout_ms": 10 }, "entropy": { "seeded": 7 }, "args": ["a"],
            "env": { "A": "b" }, "session": { "checkpoints_retained": 1 },
        }))
        .unwrap();
        assert_eq!((policy.limits.fuel, policy.limits.timeout_ms), (1_000_000_000, 10));
        assert_eq!(policy.limits.memory_bytes, Policy::default().limits.memory_bytes);
        assert_eq!((policy.entropy, policy.clock), (Entropy::Seeded(7), Clock::Fixed(5)));
        assert_eq!((policy.session.checkpoints_retained, policy.args.len(), policy.env.len()), (1, 1, 1));
    }

    #[test]
    fn a_request_narrows_the_network_and_extends_nothing_of_it() {
        let mut granted = Policy::default();
        granted.network = NetworkPolicy::allowing(["https://api.example.com/v1/*"]);
        granted.network.secrets.insert("KEY".into(), SecretPolicy::new("REAL", "api.example.com"));
        let asked = |network: Value| {
            let Value::Object(policy) = json!({ "network": network }) else { panic!("no object") };
            narrowed(&granted, &policy).map_err(|error| error.to_string())
        };
        assert!(!asked(json!({ "allow": [] })).unwrap().network.is_on(), "without any");
        let policy =
            asked(json!({ "allow": ["https://api.example.com/v1/a"], "request_count": 1, "secrets": {} })).unwrap();
        assert_eq!((policy.network.request_count, policy.network.secrets.len()), (1, 0));
        for (network, said) in [
            (
                json!({ "allow": ["https://api.example.com/*"] }),
                "`policy.network.allow` is `https://api.example.com/*`",
            ),
            (json!({ "allow_private": ["127.0.0.0/8"] }), "`policy.network.allow_private` is `127.0.0.0/8`"),
            (json!({ "request_count": 51 }), "`policy.network.request_count` is 51; this token is granted 50"),
            (
                json!({ "secrets": { "HOME": { "env": "HOME", "host": "api.example.com" } } }),
                "`policy.network.secrets` is `HOME`",
            ),
            (
                json!({ "secrets": { "KEY": { "env": "OTHER", "host": "api.example.com" } } }),
                "`policy.network.secrets` is `KEY`",
            ),
            (json!({ "redirects": 6 }), "`network.redirects`"),
            (json!([]), "`network` is an object"),
            (json!({ "proxy": "http://x" }), "proxy"),
        ] {
            let error = asked(network.clone()).unwrap_err();
            assert!(error.contains(said), "{network}: {error}");
        }
        let Value::Object(policy) = json!({ "network": { "allow": ["https://a.example"] } }) else {
            panic!("no object")
        };
        assert!(narrowed(&Policy::default(), &policy).is_err(), "and where none is granted, none can be asked for");
    }

    #[test]
    fn what_is_beyond_the_grant_or_is_not_a_requests_to_set_is_named() {
        for (policy, said) in [
            (
                json!({ "limits": { "fuel": 1_000_000_001_u64 } }),
                "`policy.limits.fuel` is 1000000001; this token is granted 1000000000",
            ),
            (json!({ "limits": { "fule": 1 } }), "fule"),
            (json!({ "limits": { "fuel": -1 } }), "integer `-1`"),
            (json!({ "limits": { "fuel": "much" } }), "invalid type"),
            (json!({ "limits": 7 }), "`limits` is an object"),
            (json!({ "clock": "host" }), "`policy.clock` is `host`; this token is granted `fixed`"),
            (json!({ "clock": { "host": null } }), "`policy.clock` is `host`"),
            (json!({ "limits": [] }), "`limits` is an object"),
            (json!({ "limits": [9_000_000_000_000_000_000_u64, 1, 31_536_000_000_u64] }), "`limits` is an object"),
            (json!({ "session": [] }), "`session` is an object"),
            (json!({ "metering": "none" }), "`policy.metering`"),
            (json!({ "workspace": "/etc" }), "`policy.workspace` cannot be set"),
            (json!({ "mounts": [{ "host": "/", "guest": "/x" }] }), "`policy.mounts` cannot be set"),
            (json!({ "commit": "always" }), "`policy.commit` cannot be set"),
            (json!({ "nothing": 1 }), "`policy.nothing` cannot be set"),
            (json!({ "env": { "A=B": "c" } }), "A=B"),
        ] {
            let error = asked(policy.clone()).unwrap_err();
            assert!(error.contains(said), "{policy}: {error}");
        }
    }
}
