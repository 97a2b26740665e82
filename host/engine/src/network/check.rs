//! Checks of the table `network` beyond its types.

use std::collections::BTreeMap;

use glovebox_core::PolicyError;

use super::{
    NetworkPolicy,
    policy::{METHODS, PLACEHOLDER_START, wrong},
};
#[cfg(feature = "network")]
use super::{address::AddressRules, pattern::UrlPatterns, secrets};

impl NetworkPolicy {
    /// Checks ranges, counts and texts.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        for (key, value, least, most) in [
            ("request_count", self.request_count, 0, 1_000_000),
            ("request_bytes", self.request_bytes, 0, 64 << 20),
            ("response_bytes", self.response_bytes, 0, 64 << 20),
            ("timeout_ms", self.timeout_ms, 1, 365 * 24 * 3600 * 1000),
            ("redirects", u64::from(self.redirects), 0, u64::from(Self::MAX_REDIRECTS)),
        ] {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, format!("it is {value}; it must be between {least} and {most}")));
            }
        }
        for (key, count, most) in [
            ("allow", self.allow.len(), Self::MAX_PATTERNS),
            ("allow_private", self.allow_private.len(), Self::MAX_PATTERNS),
            ("secrets", self.secrets.len(), Self::MAX_SECRETS),
        ] {
            if count > most {
                return Err(wrong(key, format!("there are {count}; the limit is {most}")));
            }
        }
        if let Some(method) = self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            return Err(wrong("methods", format!("`{method}` is not one of {}", METHODS.join(", "))));
        }
        self.check_addresses()
    }

    /// Rejects variables that have the names of secrets. Variables with placeholders are accepted: a sandbox that was
    /// built before has them.
    pub(crate) fn check_environment(&self, env: &BTreeMap<String, String>) -> Result<(), PolicyError> {
        let is_taken = |name: &&String| env.get(*name).is_some_and(|value| !value.starts_with(PLACEHOLDER_START));
        self.secrets.keys().find(is_taken).map_or(Ok(()), |name| {
            Err(wrong(format!("secrets.{name}"), "`env` has a variable of this name; give one of them another name"))
        })
    }

    #[cfg(feature = "network")]
    fn check_addresses(&self) -> Result<(), PolicyError> {
        UrlPatterns::new(&self.allow)?;
        AddressRules::of(&self.allow_private)?;
        for (name, secret) in &self.secrets {
            secrets::check(name, secret)?;
        }
        Ok(())
    }

    /// Without the feature `network` there is no code to check addresses with.
    #[cfg(not(feature = "network"))]
    fn check_addresses(&self) -> Result<(), PolicyError> {
        if self.is_on() { Err(super::not_built::refusal()) } else { Ok(()) }
    }
}
