//! The cases that the portable provider does not pass as the engine does, each with its reason. A trial fails where this table is too
//! short, and where it is too long.

use glovebox::Language;

use super::Host;
use crate::Case;

/// In what a case differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// It ends otherwise than it says itself.
    Outcome,
    /// It ends as it says. Under a fixed clock and seeded entropy it is not in everything what the engine gives: a figure, or a text
    /// that the case does not look at.
    Figures,
}

/// Cases that differ for one reason.
#[derive(Debug)]
pub struct Exception {
    /// Their names; of one language where it stands before: `python/NAME`.
    pub cases: &'static [&'static str],
    /// Where.
    pub hosts: &'static [Host],
    /// In what.
    pub differs: Differs,
    /// Why, for the page.
    pub reason: &'static str,
}

/// All of them, in the order of the page.
pub const EXCEPTIONS: &[Exception] = &[];

/// What is expected of a case in a host: in what it differs, if it does.
#[must_use]
pub fn expected(host: Host, case: &Case) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.names(case.language, &case.name))
}

/// Hostile scripts that end otherwise, each at the limits of `tests/everywhere_hostile.rs`.
#[derive(Debug)]
pub struct HostileException {
    /// Their names.
    pub rows: &'static [&'static str],
    /// Where.
    pub hosts: &'static [Host],
    /// How they end there: an outcome, or [`INSTANCE_ENDS`].
    pub outcome: &'static str,
    /// Why, for the page.
    pub reason: &'static str,
}

/// A trap that cannot be caught: the host reports it, and whoever wants to go on makes a new instance.
pub const INSTANCE_ENDS: &str = "the instance ends";

/// All of them, in the order of the page.
pub const HOSTILE_EXCEPTIONS: &[HostileException] = &[];

/// How a hostile script ends in a host, if not as its row says.
#[must_use]
pub fn expected_of_hostile(host: Host, row: &str) -> Option<&'static HostileException> {
    HOSTILE_EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.rows.contains(&row))
}

impl Exception {
    /// Whether it is about this case.
    #[must_use]
    pub fn names(&self, language: Language, case: &str) -> bool {
        let named = |name: &&str| match name.split_once('/') {
            Some((of, name)) => of == language.name() && name == case,
            None => *name == case,
        };
        self.cases.iter().any(named)
    }
}
