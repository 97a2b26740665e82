//! Where sessions are kept, and what waking one takes.

use std::path::PathBuf;

use clap::Args;
use glovebox::SessionId;

use super::{PolicyArgs, RuntimeArgs};
use crate::terminal::Hinted;

/// The directory with the kept sessions.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct StoreArgs {
    /// Where sessions are kept [default: $XDG_STATE_HOME/glovebox/sessions]
    #[arg(long, global = true, value_name = "DIR", env = "GLOVEBOX_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,

    /// A file with a secret of 32 to 64 bytes: sessions are sealed with it, and none is taken that is not
    #[arg(long, global = true, value_name = "FILE", env = "GLOVEBOX_KEY_FILE", hide_env_values = true)]
    pub(crate) key_file: Option<PathBuf>,

    /// Fail at once when another process has the session, instead of waiting for it
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
}

impl StoreArgs {
    /// Refuses what only means something for a kept session, where there is none. The others may come from the environment.
    pub(crate) fn check(&self, session: Option<&SessionId>) -> Result<(), Hinted> {
        if self.no_wait && session.is_none() {
            return Err(Hinted::new(
                "--no-wait is about a kept session, and none is named",
                "name one with --session ID",
            ));
        }
        Ok(())
    }
}

/// What a session is woken with: none of it is kept with the session.
#[derive(Args, Debug)]
pub(crate) struct WakeArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
