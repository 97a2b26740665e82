//! The store of sessions, and options for activating them.

use std::path::PathBuf;

use clap::Args;
use glovebox_sessions::SessionId;

use super::{PolicyArgs, RuntimeArgs};
use crate::terminal::Hinted;

/// The store of sessions.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct StoreArgs {
    /// Store of sessions: a directory, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIR` [default:
    /// GLOVEBOX_STORE for `run`, `repl` and `session`; otherwise the command's directory in $XDG_STATE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub(crate) store: Option<PathBuf>,

    /// File with a secret of 32 to 64 bytes that seals sessions; sessions with another seal are rejected [default:
    /// GLOVEBOX_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Fail immediately if another process uses the session, instead of waiting
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
}

impl StoreArgs {
    /// Returns these flags with the store from the environment, if no flag names one. Only commands for the user's own
    /// sessions use the variable: a server that inherits a shell's variables must not serve that shell's sessions.
    pub(crate) fn or_environment(&self) -> Self {
        Self { store: self.store.clone().or_else(|| variable("GLOVEBOX_STORE")), ..self.clone() }
    }

    /// Returns the path of the key file, from the flag or the environment.
    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        self.key_file.clone().or_else(|| variable("GLOVEBOX_KEY_FILE"))
    }

    /// Rejects a flag that needs a stored session, if no session is given.
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

/// Options for activating a session. They are not stored with the session.
#[derive(Args, Debug)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
