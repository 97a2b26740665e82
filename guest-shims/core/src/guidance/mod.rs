//! Explanations of failures, with advice for the people and models that write the scripts.
//!
//! All of it is derived from the outcome, the limits and the source, never from a script's output. Text from a script
//! (names, paths, messages) is quoted short and without control characters. A source line is returned only if a single
//! correction is certain.

mod advice;
mod failure;
mod fuel;
mod javascript;
mod limits;
mod names;
mod network;
mod python;
mod typescript;

use serde::{Deserialize, Serialize};

use failure::Failure;

pub use advice::{Advice, AdviceKind, Correction};
pub use failure::Facts;
pub use fuel::{FuelAnalysis, FuelStatus};

use crate::{Language, Outcome};

/// Advice on an execution, with an analysis of its fuel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guidance {
    /// The fuel analysis, with a suggested limit.
    pub fuel: FuelAnalysis,
    /// Known problems and their solutions, the most important first; often empty.
    pub advice: Vec<Advice>,
}

/// Returns the modules that exist without installation, for comparison with a misspelt name.
pub fn modules(language: Language) -> impl Iterator<Item = &'static str> {
    names::of(language)
}

/// Returns the import names of the packages at `/app/site-packages`.
pub fn packages() -> impl Iterator<Item = &'static str> {
    names::packages()
}

/// Returns the modules that are proposed instead of missing Python modules. Tests with the interpreters import each.
pub fn substitutes(has_data_packages: bool) -> impl Iterator<Item = &'static str> {
    python::substitutes(has_data_packages)
}

/// Analyses an execution.
#[must_use]
pub fn guidance(facts: &Facts<'_>) -> Guidance {
    let mut advice: Vec<Advice> = limits::of_outcome(facts).into_iter().collect();
    if let Outcome::Raised(raised) = facts.outcome {
        let failure = Failure { raised, source: facts.source, has_data_packages: facts.has_data_packages };
        advice.extend(match facts.language {
            Language::Python => python::advice(&failure),
            Language::JavaScript => javascript::advice(&failure),
        });
    }
    advice.extend(limits::of_output(facts));
    Guidance { fuel: FuelAnalysis::of(facts), advice }
}

#[cfg(test)]
mod tests;
