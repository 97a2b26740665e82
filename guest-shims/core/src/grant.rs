//! Policy changes that a request makes, and the operator's grant that bounds them.

use serde_json::{Map, Value};

use crate::{Clock, Entropy, Limits};

/// Applies a request's changes to a policy. The policy and the changes are JSON objects with the names of a policy
/// file. The settings named in `tables` are merged entry by entry; all other settings are replaced as a whole.
///
/// The result is unchecked. Parse it as a policy, and check the policy with [`GrantParts::first_excess`]: JSON can
/// express the same setting in several ways.
///
/// # Errors
/// Fails for an unknown name, or if the change of a table is not an object.
pub fn change_policy(policy: &mut Value, changes: &Map<String, Value>, tables: &[&str]) -> Result<(), ChangeError> {
    for (name, change) in changes {
        let is_table = tables.contains(&name.as_str());
        match (policy.get_mut(name), change) {
            (Some(Value::Object(table)), Value::Object(entries)) if is_table => table.extend(entries.clone()),
            (Some(_), _) if is_table => return Err(ChangeError::NoTable(name.clone())),
            (Some(place), change) => *place = change.clone(),
            (None, _) => return Err(ChangeError::Unknown(name.clone())),
        }
    }
    Ok(())
}

/// A change that cannot be applied to a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The policy has no setting with this name.
    Unknown(String),
    /// The setting with this name requires an object.
    NoTable(String),
}

/// The policy settings that every backend checks against a grant.
#[derive(Clone, Copy, Debug)]
pub struct GrantParts<'a> {
    /// The granted or requested limits.
    pub limits: &'a Limits,
    /// The granted or requested clock.
    pub clock: &'a Clock,
    /// The granted or requested source of random numbers.
    pub entropy: &'a Entropy,
}

/// A setting that exceeds a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantExcess {
    /// The setting's name, such as `limits.fuel`.
    pub key: String,
    /// The requested value.
    pub requested: String,
    /// The granted value; for a limit, the maximum.
    pub granted: String,
}

impl GrantParts<'_> {
    /// Returns the first setting of `requested` that exceeds this grant: a higher limit, or the host's clock or entropy
    /// if it is not granted.
    pub fn first_excess(&self, requested: &GrantParts<'_>) -> Option<GrantExcess> {
        let excess = |key: &str, requested: &str, granted: &str| {
            Some(GrantExcess { key: key.to_owned(), requested: requested.to_owned(), granted: granted.to_owned() })
        };
        let numbers = |limits: &Limits| serde_json::to_value(limits).unwrap_or_default();
        let (max, wanted) = (numbers(self.limits), numbers(requested.limits));
        for (key, wanted) in wanted.as_object().into_iter().flatten() {
            let max = max.get(key).unwrap_or(&Value::Null);
            if wanted.as_u64() > max.as_u64() {
                return excess(&format!("limits.{key}"), &wanted.to_string(), &max.to_string());
            }
        }
        if *requested.clock == Clock::Host && *self.clock != Clock::Host {
            return excess("clock", "`host`", "`fixed`");
        }
        if *requested.entropy == Entropy::Host && *self.entropy != Entropy::Host {
            return excess("entropy", "`host`", "`seeded`");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grant_tables_are_merged_by_entry() {
        let changed = |changes: Value| {
            let mut policy = json!({ "limits": { "fuel": 1, "files": 2 }, "env": { "A": "b" } });
            let Value::Object(changes) = changes else { panic!("{changes} is not an object") };
            change_policy(&mut policy, &changes, &["limits"]).map(|()| policy)
        };
        let policy = changed(json!({ "limits": { "fuel": 3 }, "env": { "C": "d" } })).unwrap();
        assert_eq!(policy, json!({ "limits": { "fuel": 3, "files": 2 }, "env": { "C": "d" } }));
        for no_table in [json!(7), json!([7]), json!(null)] {
            assert_eq!(changed(json!({ "limits": no_table })), Err(ChangeError::NoTable("limits".into())));
        }
        assert_eq!(changed(json!({ "limit": {} })), Err(ChangeError::Unknown("limit".into())));
    }

    #[test]
    fn each_limit_is_capped_by_the_grant() {
        let granted = Limits::default();
        let excess = |requested: &Limits| {
            let (clock, entropy) = (&Clock::Fixed(0), &Entropy::Seeded(0));
            GrantParts { limits: &granted, clock, entropy }.first_excess(&GrantParts {
                limits: requested,
                clock,
                entropy,
            })
        };
        let Value::Object(numbers) = serde_json::to_value(&granted).unwrap() else { panic!("limits are an object") };
        assert_eq!(excess(&granted), None);
        for (name, max) in numbers {
            let limits = |number: u64| {
                let mut limits = serde_json::to_value(&granted).unwrap();
                limits[&name] = number.into();
                serde_json::from_value::<Limits>(limits).unwrap()
            };
            let max = max.as_u64().unwrap();
            assert_eq!(excess(&limits(max - 1)), None, "under {name}");
            let excess = excess(&limits(max + 1)).unwrap();
            assert_eq!((excess.key, excess.granted), (format!("limits.{name}"), max.to_string()));
        }
    }

    #[test]
    fn host_clock_and_entropy_require_a_grant() {
        let limits = Limits::default();
        let key = |granted: (Clock, Entropy), requested: (Clock, Entropy)| {
            let granted = GrantParts { limits: &limits, clock: &granted.0, entropy: &granted.1 };
            let requested = GrantParts { limits: &limits, clock: &requested.0, entropy: &requested.1 };
            granted.first_excess(&requested).map(|excess| excess.key)
        };
        let (host, fixed) = ((Clock::Host, Entropy::Host), (Clock::Fixed(1), Entropy::Seeded(1)));
        assert_eq!(key(host, fixed), None);
        assert_eq!(key(host, host), None);
        assert_eq!(key(fixed, (Clock::Fixed(2), Entropy::Seeded(2))), None);
        assert_eq!(key(fixed, (Clock::Host, Entropy::Seeded(1))).as_deref(), Some("clock"));
        assert_eq!(key(fixed, (Clock::Fixed(1), Entropy::Host)).as_deref(), Some("entropy"));
    }
}
