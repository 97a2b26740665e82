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
    /// Where sessions are stored: a directory, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIR` [default: GLOVEBOX_STORE for `run`,
    /// `repl` and `session`; else a directory of the command's own in $XDG_STATE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub(crate) store: Option<PathBuf>,

    /// A file with a secret of 32 to 64 bytes that seals sessions; sessions sealed differently are refused [default: GLOVEBOX_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Fail at once if another process uses the session, instead of waiting for it
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
}

impl StoreArgs {
    /// These flags, with the store of the environment if none is given. It names the store of the command's own sessions: a server that
    /// inherits a shell's variables must not serve that shell's sessions.
    pub(crate) fn or_environment(&self) -> Self {
        Self { store: self.store.clone().or_else(|| variable("GLOVEBOX_STORE")), ..self.clone() }
    }

    /// The key's file, of the flag or the environment.
    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        self.key_file.clone().or_else(|| variable("GLOVEBOX_KEY_FILE"))
    }

    /// Refuses a flag that needs a stored session, if there is none.
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

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The conditions under which a session is activated: none of them is stored with it.
#[derive(Args, Debug)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
