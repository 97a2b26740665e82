//! Network access for scripts, which is off unless the policy allows addresses.
//!
//! Scripts have no sockets. A script's request reaches the host as a call to the reserved tool
//! [`NETWORK_TOOL`](crate::tools::NETWORK_TOOL). Limits, cancellation, records and concurrent requests therefore work
//! as for tools. A [`Network`] performs the requests. The `glovebox-network` crate provides an implementation for HTTP.
//!
//! | file | contents |
//! |---|---|
//! | `policy` | [`NetworkPolicy`]: the `network` table of a policy, and its checks |
//! | `pattern` | [`UrlPatterns`], [`AddressRules`], and the comparison of two policies |

mod pattern;
mod policy;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc};

use glovebox_core::PolicyError;

use crate::{
    Engine, Policy, RelayedCall, ToolCall, ToolError,
    tools::{NETWORK_TOOL, TextHandler},
};

pub use pattern::{AddressRules, NetworkExcess, UrlPatternError, UrlPatterns, is_public as is_public_address};
pub use policy::{NetworkPolicy, SecretPolicy};

/// A client that performs network requests for scripts.
pub trait Network: fmt::Debug + Send + Sync {
    /// Opens the network for a policy that allows addresses. Called for each new sandbox with such a policy.
    ///
    /// # Errors
    /// Fails if a secret cannot be read, or if this network does not support the policy.
    fn open(&self, policy: &Policy) -> Result<OpenNetwork, PolicyError>;
}

/// A network that was opened for one policy.
#[derive(Clone)]
pub struct OpenNetwork {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) fetch: TextHandler,
}

impl fmt::Debug for OpenNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenNetwork").field("environment", &self.environment).finish_non_exhaustive()
    }
}

impl OpenNetwork {
    /// Creates a network. `environment` contains environment variables for scripts, such as the placeholders of
    /// secrets. `fetch` performs a request. The request and the response are JSON text in the format of the drivers in
    /// `glovebox-interpreters`.
    pub fn new(
        environment: BTreeMap<String, String>,
        fetch: impl Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self { environment, fetch: Arc::new(fetch) }
    }

    /// Returns the environment variables for scripts.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Performs a request for a script in another process. May block.
    ///
    /// # Errors
    /// Fails if the request is invalid or the policy does not allow it, if a limit is exceeded, or if there is no
    /// response.
    pub fn fetch(&self, call: RelayedCall, request: String) -> Result<String, ToolError> {
        (self.fetch)(&call.of(NETWORK_TOOL), request)
    }
}

impl Network for OpenNetwork {
    fn open(&self, _policy: &Policy) -> Result<Self, PolicyError> {
        Ok(self.clone())
    }
}

impl Engine {
    /// Opens the network for a policy. Intended for a process that performs the requests of scripts in other processes.
    ///
    /// # Errors
    /// Fails like [`Network::open`], or if [`EngineConfig::network`](crate::EngineConfig::network) is not set.
    pub fn open_network(&self, policy: &Policy) -> Result<OpenNetwork, PolicyError> {
        let missing = || {
            policy::wrong(
                "allow",
                "this engine has no network; set `EngineConfig::network`, for instance to `glovebox_network::Http`",
            )
        };
        self.0.network.as_ref().ok_or_else(missing)?.open(policy)
    }
}
