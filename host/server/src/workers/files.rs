//! The files that a worker may access: landlock.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::measure::{Measure, Reach};

/// The requested version. An older kernel enforces its subset and reports that.
const WANTED: ABI = ABI::V6;

/// Restricts this thread, and those that it will start, to these files. Also denies TCP and signals to processes
/// outside.
pub(super) fn restrict(reach: &Reach) -> Result<Measure, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::from_all(WANTED)
        & !(AccessFs::Execute | AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(&reach.read, read))?
        .add_rules(path_beneath_rules(&reach.write, write))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Measure::On,
        RulesetStatus::PartiallyEnforced => Measure::Partly(
            "landlock of this kernel is older than that of Linux 6.12 and may not restrict TCP or signals".into(),
        ),
        RulesetStatus::NotEnforced => Measure::Off("landlock is unavailable or disabled in this kernel".into()),
    })
}
