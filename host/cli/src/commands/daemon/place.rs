//! Socket of a daemon.

use std::path::PathBuf;

use clap::Args;

use crate::terminal::Hinted;

/// Socket of a daemon.
#[derive(Args, Debug)]
pub(super) struct PlaceArgs {
    /// Path of the socket [default: ~/.rlm/daemon.sock]
    #[arg(long, value_name = "PATH", env = "GLOVEBOX_DAEMON_SOCKET")]
    socket: Option<PathBuf>,
}

impl PlaceArgs {
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.socket {
            Some(path) => Ok(path.clone()),
            None => default_socket(),
        }
    }
}

/// Returns the path where clients look for a daemon.
fn default_socket() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| Hinted::new("HOME names no directory", "name the socket with --socket"))?;
    Ok(home.join(".rlm").join("daemon.sock"))
}
