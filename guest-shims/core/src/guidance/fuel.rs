//! What an execution did with its fuel.

use serde::Serialize;

use super::Facts;
use crate::{Language, Outcome, Resource};

/// How much of its fuel an execution used, and what limit would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FuelAnalysis {
    /// What it used.
    pub used: u64,
    /// What it could use: `limits.fuel`.
    pub limit: u64,
    /// The part that it used, in whole percent.
    pub utilization_percent: u64,
    /// What that means.
    pub status: FuelStatus,
    /// The `limits.fuel` that gives it room, where this one did not or hardly did: twice what ran out, or one and a half times
    /// what nearly did.
    pub suggested_limit: Option<u64>,
    /// Where the fuel may have gone, where it ran out.
    pub likely_causes: Vec<String>,
}

/// How near an execution came to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelStatus {
    /// Less than half.
    Efficient,
    /// Less than three quarters.
    Moderate,
    /// Less than nine tenths.
    Warning,
    /// Nearly all.
    Critical,
    /// It ran out.
    Exhausted,
}

impl FuelAnalysis {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let (used, limit) = (facts.fuel_consumed, facts.limits.fuel);
        let is_exhausted = matches!(facts.outcome, Outcome::Exhausted { resource: Resource::Fuel, .. });
        let utilization_percent = percent(used, limit);
        let status = match utilization_percent {
            _ if is_exhausted => FuelStatus::Exhausted,
            0..50 => FuelStatus::Efficient,
            50..75 => FuelStatus::Moderate,
            75..90 => FuelStatus::Warning,
            _ => FuelStatus::Critical,
        };
        let suggested_limit = match status {
            FuelStatus::Efficient | FuelStatus::Moderate => None,
            FuelStatus::Warning | FuelStatus::Critical => facts.limits.raised("fuel", 150),
            FuelStatus::Exhausted => facts.limits.raised("fuel", 200),
        };
        let likely_causes = if is_exhausted { causes(facts) } else { Vec::new() };
        Self { used, limit, utilization_percent, status, suggested_limit, likely_causes }
    }
}

fn percent(used: u64, limit: u64) -> u64 {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Loops that nothing but their body ends.
fn causes(facts: &Facts<'_>) -> Vec<String> {
    const MAX_LOOPS: usize = 3;
    let is_endless = |line: &str| {
        let line: String = line.chars().filter(|char| !char.is_whitespace()).take(32).collect();
        match facts.language {
            Language::Python => ["whileTrue:", "while1:", "while(True):"].iter().any(|head| line.starts_with(head)),
            Language::JavaScript => {
                ["while(true)", "while(1)", "while(!0)", "for(;;)"].iter().any(|head| line.starts_with(head))
            }
        }
    };
    let endless = (1u64..).zip(facts.source.lines()).filter(|(_, line)| is_endless(line)).take(MAX_LOOPS);
    endless.map(|(number, _)| format!("the loop at line {number} ends only where its body ends it")).collect()
}
