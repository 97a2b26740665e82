//! Applies a request's policy changes to the tenant's granted policy, and rejects changes that exceed the grant.

use glovebox::{
    Metering, NetworkExcess, Policy, PolicyError, escaped,
    grant::{ChangeError, GrantExcess, GrantParts, change_policy},
};
use serde_json::{Map, Value};

/// Policy keys that a request may set. Keys for host directories and package downloads are excluded.
const OPEN: [&str; 11] = [
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
    "tools",
];

/// Policy keys whose entries a request changes individually. A request adds to `tools`, and replaces the values of all
/// other keys as a whole.
const TABLES: [&str; 3] = ["limits", "session", "network"];

/// The reason why the policy changes in a request were rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The request sets a key that requests must not set.
    #[error("`policy.{name}` cannot be set by a request; set it in the server's configuration", name = escaped(.0))]
    NotOpen(String),
    /// The request sets a value that exceeds the tenant's grant.
    #[error(
        "`policy.{key}` is {requested}, but this token grants only {granted}; change or remove the setting",
        key = escaped(.key)
    )]
    Exceeded {
        /// The key in the policy.
        key: String,
        /// The requested value.
        requested: String,
        /// The granted value or maximum.
        granted: String,
    },
    /// The policy with the changes applied is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The changes cannot be parsed as a policy.
    #[error("`policy`: {0}")]
    Form(String),
}

/// Returns `granted` with the changes in `requested`, an object with policy keys. Fails if the result exceeds
/// `granted`.
pub(crate) fn narrowed(granted: &Policy, requested: &Map<String, Value>) -> Result<Policy, GrantError> {
    if let Some(name) = requested.keys().find(|name| !OPEN.contains(&name.as_str())) {
        return Err(GrantError::NotOpen(name.clone()));
    }
    let mut policy = serde_json::to_value(granted).map_err(form)?;
    change_policy(&mut policy, requested, &TABLES).map_err(|error| match error {
        ChangeError::Unknown(name) => GrantError::NotOpen(name),
        ChangeError::NoTable(name) => GrantError::Form(format!("`{name}` must be an object")),
    })?;
    let mut policy: Policy = serde_json::from_value(policy).map_err(form)?;
    if requested.contains_key("tools") {
        let tools = std::mem::replace(&mut policy.tools, granted.tools.clone());
        for (name, tool) in tools {
            policy.tools.entry(name).or_default().narrow(tool);
        }
    }
    policy.check()?;
    if let Some(GrantExcess { key, requested, granted }) = parts(granted).first_excess(&parts(&policy)) {
        return Err(GrantError::Exceeded { key, requested, granted });
    }
    if policy.metering == Metering::None && granted.metering != Metering::None {
        let (requested, granted) = ("`none`".to_owned(), "`fuel`".to_owned());
        return Err(GrantError::Exceeded { key: "metering".to_owned(), requested, granted });
    }
    // A request can remove secrets but cannot add or change them.
    if let Some(NetworkExcess { key, requested, granted }) = policy.network.first_excess(&granted.network)? {
        let granted = if granted.is_empty() { "none".to_owned() } else { granted };
        return Err(GrantError::Exceeded { key: format!("network.{key}"), requested, granted });
    }
    Ok(policy)
}

fn form(error: serde_json::Error) -> GrantError {
    GrantError::Form(error.to_string())
}

fn parts(policy: &Policy) -> GrantParts<'_> {
    GrantParts { limits: &policy.limits, clock: &policy.clock, entropy: &policy.entropy }
}

#[cfg(test)]
mod tests {
    use glovebox::{Clock, Entropy, NetworkPolicy, SecretPolicy};
    use serde_json::json;

    use super::*;

    fn narrow(policy: Value) -> Result<Policy, String> {
        let mut granted = Policy::default();
        granted.limits.fuel = 1_000_000_000;
        granted.clock = Clock::Fixed(5);
        let Value::Object(policy) = policy else { panic!("{policy} is not an object") };
        narrowed(&granted, &policy).map_err(|error| error.to_string())
    }

    #[test]
    fn request_policy_overrides_only_named_fields() {
        let policy = narrow(json!({
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
    fn request_narrows_but_never_widens_the_network() {
        let mut granted = Policy::default();
        granted.network = NetworkPolicy::allowing(["https://api.example.com/v1/*"]);
        granted.network.secrets.insert("KEY".into(), SecretPolicy::new("REAL", "api.example.com"));
        let narrow = |network: Value| {
            let Value::Object(policy) = json!({ "network": network }) else { panic!("not an object") };
            narrowed(&granted, &policy).map_err(|error| error.to_string())
        };
        assert!(!narrow(json!({ "allow": [] })).unwrap().network.is_on(), "an empty list turns the network off");
        let policy =
            narrow(json!({ "allow": ["https://api.example.com/v1/a"], "request_count": 1, "secrets": {} })).unwrap();
        assert_eq!((policy.network.request_count, policy.network.secrets.len()), (1, 0));
        for (network, expected) in [
            (
                json!({ "allow": ["https://api.example.com/*"] }),
                "`policy.network.allow` is `https://api.example.com/*`",
            ),
            (json!({ "allow_private": ["127.0.0.0/8"] }), "`policy.network.allow_private` is `127.0.0.0/8`"),
            (json!({ "request_count": 51 }), "`policy.network.request_count` is 51, but this token grants only 50"),
            (
                json!({ "secrets": { "HOME": { "env": "HOME", "host": "api.example.com" } } }),
                "`policy.network.secrets` is `HOME`",
            ),
            (
                json!({ "secrets": { "KEY": { "env": "OTHER", "host": "api.example.com" } } }),
                "`policy.network.secrets` is `KEY`",
            ),
            (json!({ "redirects": 6 }), "`network.redirects`"),
            (json!([]), "`network` must be an object"),
            (json!({ "proxy": "http://x" }), "proxy"),
        ] {
            let error = narrow(network.clone()).unwrap_err();
            assert!(error.contains(expected), "{network}: {error}");
        }
        let Value::Object(policy) = json!({ "network": { "allow": ["https://a.example"] } }) else {
            panic!("not an object")
        };
        assert!(
            narrowed(&Policy::default(), &policy).is_err(),
            "a request must not ask for a network that is not granted"
        );
    }

    #[test]
    fn request_narrows_but_never_widens_tools() {
        let granted = "[tools.a]\nmax_calls = 2\nschema = { maxProperties = 1 }\n[tools.b]\nmax_calls = 3";
        let granted = Policy::from_toml(granted).unwrap();
        let narrow = |tools: Value| {
            let Value::Object(policy) = json!({ "tools": tools }) else { panic!("not an object") };
            narrowed(&granted, &policy).map(|policy| serde_json::to_value(policy.tools).unwrap())
        };
        let own = json!({ "a": { "max_calls": 2, "schema": { "maxProperties": 1 } }, "b": { "max_calls": 3 } });
        for nothing in [
            json!({}),
            json!({ "a": {} }),
            json!({ "a": { "max_calls": null, "schema": null } }),
            json!({ "a": { "max_calls": 9 }, "b": { "max_calls": 3 } }),
            json!({ "a": { "schema": { "maxProperties": 1 } } }),
        ] {
            assert_eq!(narrow(nothing.clone()).unwrap(), own, "{nothing}");
        }
        assert_eq!(
            narrow(json!({ "a": { "max_calls": 1, "schema": {} }, "b": { "schema": {} }, "c": { "max_calls": 0 } }))
                .unwrap(),
            json!({
                "a": { "max_calls": 1, "schema": { "allOf": [{ "maxProperties": 1 }, {}] } },
                "b": { "max_calls": 3, "schema": {} },
                "c": { "max_calls": 0 },
            })
        );
        let approving = Policy::from_toml("[tools.a]\napprove = 'always'").unwrap();
        for approve in ["never", "always"] {
            let requested = json!({ "tools": { "a": { "approve": approve }, "b": { "approve": approve } } });
            let policy = narrowed(&approving, requested.as_object().unwrap()).unwrap();
            assert!(policy.needs_approval("a"), "a request cannot remove the approval");
            assert_eq!(policy.needs_approval("b"), approve == "always");
        }
        for (tools, expected) in [
            (json!([]), "invalid type"),
            (json!(null), "invalid type"),
            (json!({ "a": { "calls": 1 } }), "unknown field `calls`"),
            (json!({ "a": { "max_calls": -1 } }), "integer `-1`"),
            (json!({ "a": { "approve": "ask" } }), "unknown variant `ask`, expected `never` or `always`"),
            (json!({ "a": { "schema": { "$ref": "http://127.0.0.1/" } } }), "`tools.a.schema`: `$ref`"),
            (json!({ "a": { "schema": { "$id": "http://127.0.0.1/" } } }), "`tools.a.schema`: `$id`"),
            (json!({ "a b": {} }), "`tools.a b`"),
        ] {
            let error = narrow(tools.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{tools}: {error}");
        }
    }

    #[test]
    fn excessive_or_forbidden_policy_fields_are_named() {
        for (policy, expected) in [
            (
                json!({ "limits": { "fuel": 1_000_000_001_u64 } }),
                "`policy.limits.fuel` is 1000000001, but this token grants only 1000000000",
            ),
            (json!({ "limits": { "fule": 1 } }), "fule"),
            (json!({ "limits": { "fuel": -1 } }), "integer `-1`"),
            (json!({ "limits": { "fuel": "much" } }), "invalid type"),
            (json!({ "limits": 7 }), "`limits` must be an object"),
            (json!({ "clock": "host" }), "`policy.clock` is `host`, but this token grants only `fixed`"),
            (json!({ "clock": { "host": null } }), "`policy.clock` is `host`"),
            (json!({ "limits": [] }), "`limits` must be an object"),
            (json!({ "limits": [9_000_000_000_000_000_000_u64, 1, 31_536_000_000_u64] }), "`limits` must be an object"),
            (json!({ "session": [] }), "`session` must be an object"),
            (json!({ "metering": "none" }), "`policy.metering`"),
            (json!({ "workspace": "/etc" }), "`policy.workspace` cannot be set"),
            (json!({ "mounts": [{ "host": "/", "guest": "/x" }] }), "`policy.mounts` cannot be set"),
            (json!({ "commit": "always" }), "`policy.commit` cannot be set"),
            (json!({ "nothing": 1 }), "`policy.nothing` cannot be set"),
            (json!({ "env": { "A=B": "c" } }), "A=B"),
        ] {
            let error = narrow(policy.clone()).unwrap_err();
            assert!(error.contains(expected), "{policy}: {error}");
        }
    }
}
