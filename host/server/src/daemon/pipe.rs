//! The named pipe that replaces the socket on Windows. It is compiled but not tested: see `docs/daemon.md`.

use std::{io, time::Duration};

use tokio::net::windows::named_pipe::{NamedPipeServer, PipeMode, ServerOptions};
use tokio_util::task::TaskTracker;

use super::{
    Daemon,
    serve::{refuse_connection, serve_client},
};

/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(50);

/// A named pipe for clients on this machine. By default, Windows lets only the pipe's owner, administrators and the
/// system write to it.
#[derive(Debug)]
pub struct Listener {
    name: String,
    next: NamedPipeServer,
}

impl Listener {
    /// Creates the pipe with a name such as `\\.\pipe\rlm-daemon`.
    ///
    /// # Errors
    /// Fails if the pipe already exists, for example because another daemon listens there, or if the name is invalid.
    pub fn bind(name: impl Into<String>) -> io::Result<Self> {
        let name = name.into();
        let next = options().first_pipe_instance(true).create(&name)?;
        Ok(Self { name, next })
    }

    async fn accept(&mut self) -> io::Result<NamedPipeServer> {
        self.next.connect().await?;
        let next = options().create(&self.name)?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

fn options() -> ServerOptions {
    let mut options = ServerOptions::new();
    options.reject_remote_clients(true).pipe_mode(PipeMode::Byte);
    options
}

/// Serves clients until the daemon stops and all running requests have finished.
pub async fn serve(daemon: &Daemon, mut listener: Listener) {
    let clients = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = daemon.stopped() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(target: "glovebox", %error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let daemon = daemon.clone();
        clients.spawn(async move {
            let Some(place) = daemon.place() else { return refuse_connection(&daemon, stream).await };
            let (input, output) = tokio::io::split(stream);
            serve_client(place, input, output, std::future::pending()).await;
        });
    }
    drop(listener);
    clients.close();
    clients.wait().await;
}
