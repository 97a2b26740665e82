//! Whether one network is within another.

use super::{NetworkPolicy, address::AddressRules, pattern::UrlPatterns};
use glovebox_core::PolicyError;

/// What of a policy goes beyond another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeyondNetwork {
    /// The name within the table `network`.
    pub key: &'static str,
    /// What was asked for.
    pub asked: String,
    /// The most that there is.
    pub granted: String,
}

impl NetworkPolicy {
    /// What of this policy goes beyond `granted`, if anything does: an address, a range, a method, a secret or a number.
    ///
    /// # Errors
    /// When one of both cannot be a policy.
    pub fn beyond(&self, granted: &Self) -> Result<Option<BeyondNetwork>, PolicyError> {
        let beyond = |key, asked: String, granted: String| Ok(Some(BeyondNetwork { key, asked, granted }));
        let (mine, theirs) = (UrlPatterns::new(&self.allow)?, UrlPatterns::new(&granted.allow)?);
        if let Some(pattern) = theirs.first_beyond(&mine) {
            return beyond("allow", format!("`{pattern}`"), theirs.describe());
        }
        let (mine, theirs) = (AddressRules::of(&self.allow_private)?, AddressRules::of(&granted.allow_private)?);
        if let Some(range) = theirs.first_beyond(&mine) {
            return beyond("allow_private", format!("`{range}`"), granted.allow_private.join(", "));
        }
        if let Some(method) = self.methods.iter().find(|method| !granted.methods.contains(method)) {
            return beyond("methods", format!("`{method}`"), granted.methods.join(", "));
        }
        if let Some((name, _)) = self.secrets.iter().find(|(name, secret)| granted.secrets.get(*name) != Some(*secret))
        {
            let names: Vec<&str> = granted.secrets.keys().map(String::as_str).collect();
            return beyond("secrets", format!("`{name}`"), names.join(", "));
        }
        for (key, asked, most) in [
            ("request_count", self.request_count, granted.request_count),
            ("request_bytes", self.request_bytes, granted.request_bytes),
            ("response_bytes", self.response_bytes, granted.response_bytes),
            ("timeout_ms", self.timeout_ms, granted.timeout_ms),
            ("redirects", self.redirects.into(), granted.redirects.into()),
        ] {
            if asked > most {
                return beyond(key, asked.to_string(), most.to_string());
            }
        }
        Ok(None)
    }
}
