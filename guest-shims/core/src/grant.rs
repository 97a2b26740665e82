//! What a request asks for of a policy, within what its operator grants.

use serde_json::{Map, Value};

use crate::{Clock, Entropy, Limits};

/// Changes a policy, an object by the names of a policy file, by what a request says under these names: `tables` by their entries, all else
/// as a whole.
///
/// What comes out is read as a policy and held to the grant then, by [`GrantParts::first_beyond`]: JSON can say one thing in several ways.
///
/// # Errors
/// At the first name that is none, and at what should be a table.
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

/// A policy cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// A policy has no such name.
    Unknown(String),
    /// What this name has is an object.
    NoTable(String),
}

/// What of a policy is held to a grant in every backend.
#[derive(Clone, Copy, Debug)]
pub struct GrantParts<'a> {
    /// How much may be used.
    pub limits: &'a Limits,
    /// What tells the time.
    pub clock: &'a Clock,
    /// Where randomness comes from.
    pub entropy: &'a Entropy,
}

/// Something that goes beyond a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Its name, as `limits.fuel`.
    pub key: String,
    /// What was asked for.
    pub asked: String,
    /// The most that there is.
    pub granted: String,
}

impl GrantParts<'_> {
    /// The first thing that goes beyond this grant: a limit that is higher, or the host's clock or randomness where they are not granted.
    #[must_use]
    pub fn first_beyond(&self, asked: &GrantParts<'_>) -> Option<Beyond> {
        let beyond = |key: &str, asked: &str, granted: &str| {
            Some(Beyond { key: key.to_owned(), asked: asked.to_owned(), granted: granted.to_owned() })
        };
        let numbers = |limits: &Limits| serde_json::to_value(limits).unwrap_or_default();
        let (most, wanted) = (numbers(self.limits), numbers(asked.limits));
        for (key, wanted) in wanted.as_object().into_iter().flatten() {
            let most = most.get(key).unwrap_or(&Value::Null);
            if wanted.as_u64() > most.as_u64() {
                return beyond(&format!("limits.{key}"), &wanted.to_string(), &most.to_string());
            }
        }
        if *asked.clock == Clock::Host && *self.clock != Clock::Host {
            return beyond("clock", "`host`", "`fixed`");
        }
        if *asked.entropy == Entropy::Host && *self.entropy != Entropy::Host {
            return beyond("entropy", "`host`", "`seeded`");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_change_by_their_entries_and_nothing_else_does() {
        let changed = |changes: Value| {
            let mut policy = json!({ "limits": { "fuel": 1, "files": 2 }, "env": { "A": "b" } });
            let Value::Object(changes) = changes else { panic!("{changes} is no object") };
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
    fn every_limit_is_held_to_the_grant() {
        let granted = Limits::default();
        let beyond = |asked: &Limits| {
            let (clock, entropy) = (&Clock::Fixed(0), &Entropy::Seeded(0));
            GrantParts { limits: &granted, clock, entropy }.first_beyond(&GrantParts { limits: asked, clock, entropy })
        };
        let Value::Object(numbers) = serde_json::to_value(&granted).unwrap() else { panic!("limits are an object") };
        assert_eq!(beyond(&granted), None);
        for (name, most) in numbers {
            let limits = |number: u64| {
                let mut limits = serde_json::to_value(&granted).unwrap();
                limits[&name] = number.into();
                serde_json::from_value::<Limits>(limits).unwrap()
            };
            let most = most.as_u64().unwrap();
            assert_eq!(beyond(&limits(most - 1)), None, "under {name}");
            let beyond = beyond(&limits(most + 1)).unwrap();
            assert_eq!((beyond.key, beyond.granted), (format!("limits.{name}"), most.to_string()));
        }
    }

    #[test]
    fn the_hosts_clock_and_randomness_are_held_to_the_grant() {
        let limits = Limits::default();
        let key = |granted: (Clock, Entropy), asked: (Clock, Entropy)| {
            let granted = GrantParts { limits: &limits, clock: &granted.0, entropy: &granted.1 };
            let asked = GrantParts { limits: &limits, clock: &asked.0, entropy: &asked.1 };
            granted.first_beyond(&asked).map(|beyond| beyond.key)
        };
        let (host, fixed) = ((Clock::Host, Entropy::Host), (Clock::Fixed(1), Entropy::Seeded(1)));
        assert_eq!(key(host, fixed), None);
        assert_eq!(key(host, host), None);
        assert_eq!(key(fixed, (Clock::Fixed(2), Entropy::Seeded(2))), None);
        assert_eq!(key(fixed, (Clock::Host, Entropy::Seeded(1))).as_deref(), Some("clock"));
        assert_eq!(key(fixed, (Clock::Fixed(1), Entropy::Host)).as_deref(), Some("entropy"));
    }
}
