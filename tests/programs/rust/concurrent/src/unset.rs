//! Policies, limits and requests that leave optional values to the provider.

use crate::{Limits, Policy, Request};

/// Returns an empty policy.
pub fn policy() -> Policy {
    Policy {
        limits: None,
        clock: None,
        entropy: None,
        args: None,
        env: None,
        inject_setup: None,
        auto_persist_globals: None,
        session: None,
    }
}

/// Returns limits without values.
pub fn no_limits() -> Limits {
    Limits {
        fuel: None,
        fuel_reserve: None,
        timeout_ms: None,
        timeout_reserve_ms: None,
        memory_bytes: None,
        stdout_bytes: None,
        stderr_bytes: None,
        display_bytes: None,
        source_bytes: None,
        stdin_bytes: None,
        workspace_bytes: None,
        workspace_inodes: None,
        open_files: None,
        tool_calls: None,
        tool_calls_at_once: None,
        tool_timeout_ms: None,
        tool_bytes: None,
        tool_record_bytes: None,
        persisted_bytes: None,
        session_count: None,
        session_total_bytes: None,
    }
}

/// Returns a request for a source.
pub fn request(source: &str) -> Request {
    Request {
        source: source.into(),
        name: None,
        kind: None,
        stdin: None,
        context: None,
        files: None,
        deadline_ms: None,
    }
}
