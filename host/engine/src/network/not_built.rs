//! What stands in for the network in a build without it.

use std::collections::BTreeMap;

use super::{NetworkPolicy, policy::wrong};
use crate::tools::ReservedTool;
use glovebox_core::{Entropy, PolicyError};

/// What a policy with a network is told.
pub(super) fn refusal() -> PolicyError {
    wrong("allow", "`glovebox` was built without its feature `network`; name it among the features in `Cargo.toml`")
}

/// The tool behind scripts' requests, and the environment that goes with it.
pub(crate) fn open(
    _policy: &NetworkPolicy,
    _entropy: Entropy,
) -> Result<(ReservedTool, BTreeMap<String, String>), PolicyError> {
    Err(refusal())
}
