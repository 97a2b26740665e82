//! Where sessions are stored, and how they are activated.

use std::path::PathBuf;

use clap::Args;
use glovebox::SessionId;

use super::{PolicyArgs, RuntimeArgs};
use crate::terminal::Hinted;

/// Where sessions are stored.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct StoreArgs {
    /// Where sessions are stored: a directory, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIR` [default: $XDG_STATE_HOME/glovebox/sessions]
    #[arg(long, global = true, value_name = "DIR|URL", env = "GLOVEBOX_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,

    /// A file with a secret of 32 to 64 bytes that seals sessions; sessions sealed differently are refused
    #[arg(long, global = true, value_name = "FILE", env = "GLOVEBOX_KEY_FILE", hide_env_values = true)]
    pub(crate) key_file: Option<PathBuf>,

    /// Fail at once if another process uses the session, instead of waiting for it
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
}

impl StoreArgs {
    /// Refuses a flag that needs a stored session, if there is none. The other flags may come from the environment.
    pub(crate) fn check(&self, session: Option<&SessionId>) -> Result<(), Hinted> {
        if self.no_wait && session.is_none() {
            return Err(Hinted::new(
                "--no-wait needs a stored session, and none is named",
                "name one with --session ID",
            ));
        }
        Ok(())
    }
}

/// The conditions under which a session is activated: none of them is stored with it.
#[derive(Args, Debug)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
