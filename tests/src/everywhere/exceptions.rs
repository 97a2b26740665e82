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

impl Exception {
    /// Whether it is about this case.
    #[must_use]
    pub fn names(&self, language: Language, case: &str) -> bool {
        let named = |name: &&str| match name.split_once('/') {
            Some((of, name)) => of == language.name() && name == case,
            None => *name == case,
        };
        self.cases.iter().any(|name| named(&name))
    }
}
