//! A case's policy, with the keys of policy files. Every field is explicit, because the host's defaults differ from the
//! cases'. Only the clock and entropy source can be the provider's default, in cases for any provider.

use std::collections::BTreeMap;

use glovebox_guest::{Checkpoints, Clock, Entropy, Limits, OnUnwind, Policy, SessionPolicy};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CasePolicy {
    clock: Option<CaseClock>,
    entropy: Option<CaseEntropy>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    inject_setup: bool,
    auto_persist_globals: bool,
    limits: CaseLimits,
    session: CaseSessionPolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum CaseClock {
    Host,
    Fixed(u64),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum CaseEntropy {
    Host,
    Seeded(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSessionPolicy {
    checkpoints: CaseCheckpoints,
    checkpoint_auto_bytes: u64,
    checkpoints_retained: u32,
    on_unwind: CaseOnUnwind,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CaseCheckpoints {
    Auto,
    Always,
    Every(u32),
    Never,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CaseOnUnwind {
    RollBack,
    End,
}

/// Defines the limits from a list of their names.
macro_rules! limits {
    ($($name:ident: $type:ty),* $(,)?) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct CaseLimits { $($name: $type),* }

        impl CaseLimits {
            fn to_limits(&self) -> Limits {
                Limits { $($name: Some(self.$name)),* }
            }
        }
    };
}

limits! {
    fuel: u64, fuel_reserve: u64, timeout_ms: u64, timeout_reserve_ms: u64, memory_bytes: u64, stdout_bytes: u64,
    stderr_bytes: u64, display_bytes: u64, source_bytes: u64, stdin_bytes: u64, workspace_bytes: u64, workspace_inodes: u64, open_files: u32,
    tool_calls: u64, tool_calls_at_once: u32, tool_timeout_ms: u64, tool_bytes: u64, tool_record_bytes: u64,
    persisted_bytes: u64, session_count: u32, session_total_bytes: u64,
}

impl CasePolicy {
    pub fn to_policy(&self) -> Policy {
        let session = SessionPolicy {
            checkpoints: Some(match self.session.checkpoints {
                CaseCheckpoints::Auto => Checkpoints::Auto,
                CaseCheckpoints::Always => Checkpoints::Always,
                CaseCheckpoints::Every(count) => Checkpoints::Every(count),
                CaseCheckpoints::Never => Checkpoints::Never,
            }),
            checkpoint_auto_bytes: Some(self.session.checkpoint_auto_bytes),
            checkpoints_retained: Some(self.session.checkpoints_retained),
            on_unwind: Some(match self.session.on_unwind {
                CaseOnUnwind::RollBack => OnUnwind::RollBack,
                CaseOnUnwind::End => OnUnwind::End,
            }),
        };
        Policy {
            limits: Some(self.limits.to_limits()),
            clock: self.clock.as_ref().map(|clock| match *clock {
                CaseClock::Host => Clock::Host,
                CaseClock::Fixed(time_ns) => Clock::Fixed(time_ns),
            }),
            entropy: self.entropy.as_ref().map(|entropy| match *entropy {
                CaseEntropy::Host => Entropy::Host,
                CaseEntropy::Seeded(seed) => Entropy::Seeded(seed),
            }),
            args: Some(self.args.clone()),
            env: Some(self.env.clone().into_iter().collect()),
            inject_setup: Some(self.inject_setup),
            auto_persist_globals: Some(self.auto_persist_globals),
            session: Some(session),
        }
    }
}
