//! Undoing inputs.

use anyhow::Context as _;
use glovebox::{Checkpoints, Session};

use crate::terminal::{Hinted, counted};

/// Saves the session before an input, if the policy would do so as well. The automatic checkpoint is only one; this
/// allows undoing more than one input.
pub(super) fn remember(session: &Session) -> anyhow::Result<()> {
    let policy = &session.sandbox().policy().session;
    let is_due = match policy.checkpoints {
        Checkpoints::Always => true,
        Checkpoints::Auto => session.info().private_bytes <= policy.checkpoint_auto_bytes,
        Checkpoints::Every(_) | Checkpoints::Never => false,
    };
    if is_due && session.ended().is_none() {
        session.checkpoint().context("cannot save the session before it runs this")?;
    }
    Ok(())
}

/// Undoes `count` inputs, or more if the session was not saved in between. Returns a description. The state after
/// `executions_at_start` executions is the earliest one.
pub(super) fn undo(session: &Session, count: u64, executions_at_start: u64) -> anyhow::Result<String> {
    let executions = session.info().executions;
    let mut checkpoints = session.checkpoints()?;
    checkpoints.retain(|checkpoint| checkpoint.executions >= executions_at_start);
    let reached = checkpoints.iter().rev().find(|checkpoint| checkpoint.executions.saturating_add(count) <= executions);
    let Some(checkpoint) = reached else {
        let most = checkpoints.first().map_or(0, |first| executions.saturating_sub(first.executions));
        return Err(Hinted::new(
            format!("{} cannot be undone", counted(count, "input")),
            match most {
                0 => "there is nothing to undo".to_owned(),
                most => format!("`:undo {most}` is the maximum; `checkpoints_retained` under `[session]` in a policy file sets how many checkpoints are retained"),
            },
        )
        .into());
    };
    session.undo_to(checkpoint.id).context("cannot roll the session back")?;
    let undone = executions - checkpoint.executions;
    Ok(format!("took back {}", counted(undone, "input")))
}
