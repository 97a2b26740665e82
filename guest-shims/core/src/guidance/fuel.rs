//! Analysis of an execution's fuel.

use serde::{Deserialize, Serialize};

use super::failure::Facts;
use crate::{Language, Outcome, Resource};

/// An execution's use of fuel, and a suggested limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuelAnalysis {
    /// The fuel used.
    pub used: u64,
    /// The fuel available: `limits.fuel`.
    pub limit: u64,
    /// The share used, in whole percent.
    pub utilization_percent: u64,
    /// The classification of that share.
    pub status: FuelStatus,
    /// A `limits.fuel` with enough room, if this one was exhausted or nearly so: twice an exhausted limit, or one and a
    /// half times a nearly exhausted one.
    pub suggested_limit: Option<u64>,
    /// Loops that may have used the fuel, if it was exhausted.
    pub likely_causes: Vec<String>,
}

/// The share of its fuel that an execution used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelStatus {
    /// Less than half.
    Efficient,
    /// Less than three quarters.
    Moderate,
    /// Less than nine tenths.
    Warning,
    /// At least nine tenths.
    Critical,
    /// All fuel was used.
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

/// Finds loops that only their body can end.
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
