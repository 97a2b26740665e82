//! Comparison of network policies.

use super::{NetworkPolicy, address::AddressRules, pattern::UrlPatterns};
use glovebox_core::PolicyError;

/// The part of a policy that exceeds another policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeyondNetwork {
    /// Key in the table `network`.
    pub key: &'static str,
    /// The requested value.
    pub asked: String,
    /// The granted value.
    pub granted: String,
}

impl NetworkPolicy {
    /// Returns the first part of this policy that exceeds `granted`, such as an address, a range, a method, a secret or
    /// a limit. Returns `None` if it grants at most the same.
    ///
    /// # Errors
    /// Fails if the patterns or ranges of either policy are invalid.
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
