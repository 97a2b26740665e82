//! Stubs for a build without the feature `network`.

use std::collections::BTreeMap;

use super::{NetworkPolicy, policy::wrong};
use crate::tools::ReservedTool;
use glovebox_core::{Entropy, PolicyError};

/// Returns the error for a policy with a network.
pub(super) fn refusal() -> PolicyError {
    wrong("allow", "`glovebox` was built without its feature `network`; enable it in `Cargo.toml`")
}

/// Always fails.
pub(crate) fn open(
    _policy: &NetworkPolicy,
    _entropy: Entropy,
) -> Result<(ReservedTool, BTreeMap<String, String>), PolicyError> {
    Err(refusal())
}
