//! Sandboxes on the shared engine.

use glovebox::{Clock, Engine, Entropy, Language, Outcome, Policy, Resource, Sandbox, TrapKind};

use crate::{PORTABLE_PYTHON, engine};

/// Creates a sandbox with the default policy, changed by `edit`.
pub fn sandbox(language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
    sandbox_on(engine(), language, edit)
}

/// Like [`sandbox`], but on `engine`.
pub fn sandbox_on(engine: &Engine, language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
    let mut policy = Policy::default();
    edit(&mut policy);
    Sandbox::builder(engine).language(language).policy(policy).build().expect("the sandbox can be built")
}

/// Makes executions reproducible: the time is 2023-11-14T22:13:20Z, and the seed is 7.
pub fn fixed(policy: &mut Policy) {
    policy.clock = Clock::Fixed(1_700_000_000_000_000_000);
    policy.entropy = Entropy::Seeded(7);
}

/// Returns the part of a language's image that `limits.memory_bytes` does not include, in bytes: all but 2 MiB.
pub fn spare_bytes(language: Language) -> u64 {
    engine().prepare(portable_runtime(language)).expect("the image can be prepared").memory_bytes - (2 << 20)
}

/// Returns a language's runtime in provider components.
pub fn portable_runtime(language: Language) -> &'static str {
    match language {
        Language::Python => PORTABLE_PYTHON,
        Language::JavaScript => "javascript",
    }
}

/// Describes an outcome in one to three words that tests can compare: `completed`, `exited 3`, `raised ValueError`,
/// `exhausted fuel`, `cancelled`, `trapped stack-overflow`.
pub fn short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => "completed".into(),
        Outcome::Exited { code } => format!("exited {code}"),
        Outcome::Raised(raised) => format!("raised {}", raised.type_name),
        Outcome::Exhausted { resource: Resource::Fuel, .. } => "exhausted fuel".into(),
        Outcome::Exhausted { resource: Resource::Time, .. } => "exhausted time".into(),
        Outcome::Exhausted { resource: Resource::Memory, .. } => "exhausted memory".into(),
        Outcome::Cancelled => "cancelled".into(),
        Outcome::Trapped { trap: TrapKind::StackOverflow } => "trapped stack-overflow".into(),
        Outcome::Trapped { trap: TrapKind::Unreachable } => "trapped unreachable".into(),
        Outcome::Trapped { trap: TrapKind::OutOfBounds } => "trapped out-of-bounds".into(),
        other => format!("{other:?}"),
    }
}
