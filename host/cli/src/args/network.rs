//! Network access of scripts.

use std::str::FromStr;

use clap::Args;
use glovebox::{NetworkPolicy, SecretPolicy};

/// Additions to the table `network` of a policy.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Network")]
pub(super) struct NetworkArgs {
    /// Allow requests of scripts to these URLs (`fetch`, `urllib.request`, `requests`), such as
    /// `https://api.example.com/v1/*`; repeatable [default: none]
    #[arg(long = "allow-net", value_name = "URL-PATTERN")]
    allow: Vec<String>,

    /// Allow these addresses although they are not public, such as `127.0.0.0/8`; repeatable
    #[arg(long = "allow-private-net", value_name = "RANGE")]
    allow_private: Vec<String>,

    /// Secret from the environment variable ENV for requests to HOST; repeatable
    ///
    /// Scripts see a placeholder in the variable NAME. The host replaces it by the secret in the headers of requests to
    /// HOST.
    #[arg(long = "secret", value_name = "NAME=ENV@HOST")]
    secrets: Vec<NamedSecret>,
}

/// A secret with the name that scripts see.
#[derive(Clone, Debug)]
struct NamedSecret {
    name: String,
    secret: SecretPolicy,
}

impl FromStr for NamedSecret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once('@')?)));
        match parts {
            Some((name, (env, host))) if !name.is_empty() && !env.is_empty() && !host.is_empty() => {
                Ok(Self { name: name.to_owned(), secret: SecretPolicy::new(env, host) })
            }
            _ => Err("write it as `NAME=ENV@HOST`, such as `API_KEY=REAL_KEY@api.example.com`"),
        }
    }
}

impl NetworkArgs {
    pub(super) fn apply(&self, network: &mut NetworkPolicy) {
        network.allow.extend(self.allow.iter().cloned());
        network.allow_private.extend(self.allow_private.iter().cloned());
        let secrets = self.secrets.iter().map(|NamedSecret { name, secret }| (name.clone(), secret.clone()));
        network.secrets.extend(secrets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_with_its_variable_and_its_host() {
        let NamedSecret { name, secret } = "KEY=REAL@api.example.com:8443".parse().unwrap();
        assert_eq!((name.as_str(), secret), ("KEY", SecretPolicy::new("REAL", "api.example.com:8443")));
        for wrong in ["", "KEY", "KEY=REAL", "=REAL@x", "KEY=@x", "KEY=REAL@"] {
            assert!(wrong.parse::<NamedSecret>().is_err(), "{wrong}");
        }
    }
}
