//! Taking inputs back.

use anyhow::Context as _;
use glovebox::{Checkpoints, Session};

use crate::terminal::{Hinted, counted};

/// Saves a session as it is before an input, where the policy would do so too: the checkpoint that it takes by itself is
/// one, and more than one input can be taken back.
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

/// Takes back so many inputs, or more where the session was not saved in between, and says what it did.
pub(super) fn undo(session: &Session, count: u64) -> anyhow::Result<String> {
    let executions = session.info().executions;
    let checkpoints = session.checkpoints()?;
    let reached = checkpoints.iter().rev().find(|checkpoint| checkpoint.executions.saturating_add(count) <= executions);
    let Some(checkpoint) = reached else {
        let most = checkpoints.first().map_or(0, |first| executions.saturating_sub(first.executions));
        return Err(Hinted::new(
            format!("{} cannot be taken back", counted(count, "input")),
            match most {
                0 => "there is nothing to take back".to_owned(),
                most => format!("`:undo {most}` is the furthest; `checkpoints_kept` under `[session]` in a policy file is how many are kept"),
            },
        )
        .into());
    };
    session.undo_to(checkpoint.id).context("cannot set the session back")?;
    let undone = executions - checkpoint.executions;
    Ok(format!("took back {}", counted(undone, "input")))
}
