//! Client connections, over a socket or over standard input and output.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    ConnectionSlot, Daemon,
    connection::Connection,
    lines::{self, Lines, Outbox},
    message::{self, INVALID_REQUEST, RpcError, RpcId},
};

/// Maximum interval between checks for idle sessions and connections. `idle` can shorten it.
const IDLE_LOOK: Duration = Duration::from_secs(5);
/// The timeout for sending a connection's last responses.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// An open connection, counted until it is dropped.
struct Connected<'a>(&'a AtomicUsize);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves a client until it disconnects, sends a line that cannot be read, or is idle for too long. After the client
/// closes its sending side, or the daemon stops, serves it until the running requests have finished.
///
/// `hung_up` resolves when the client can no longer read, if the transport detects that. It is polled only after the
/// client has closed its sending side.
pub(super) async fn serve_client<R, W, H>(place: ConnectionSlot, input: R, output: W, hung_up: H)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
    H: Future<Output = ()>,
{
    let ConnectionSlot { daemon, name } = &place;
    let shared = &daemon.0;
    shared.connected.fetch_add(1, Ordering::SeqCst);
    let _connected = Connected(&shared.connected);
    let (outbox, messages) = Outbox::new(shared.outgoing.clone(), Arc::clone(name));
    let connection = Connection::new(daemon, outbox);
    let writer = {
        let (gone, time) = (connection.gone.clone(), shared.config.write_time);
        tokio::spawn(async move {
            let written = lines::write_all(output, messages, time).await;
            if written.is_err() {
                gone.cancel();
            }
        })
    };
    talk(&connection, Lines::new(input, shared.incoming.clone(), shared.config), hung_up).await;
    connection.end();
    connection.tasks.close();
    connection.tasks.wait().await;
    // This drops the last sender. The writer finishes after the queued messages.
    drop(connection);
    let _ = tokio::time::timeout(LAST_ANSWERS, writer).await;
}

async fn talk<R: AsyncRead + Unpin>(
    connection: &Arc<Connection>,
    mut lines: Lines<R>,
    hung_up: impl Future<Output = ()>,
) {
    let daemon = connection.daemon.clone();
    let (mut has_ended, mut is_ending) = (false, false);
    tokio::pin!(hung_up);
    let mut look = tokio::time::interval(IDLE_LOOK.min(daemon.0.config.idle));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unused = 0_u32;
    loop {
        tokio::select! {
            biased;
            () = connection.gone.cancelled() => return,
            () = connection.tasks.wait(), if is_ending => return,
            () = daemon.stopped(), if !is_ending => {
                is_ending = true;
                connection.tasks.close();
            }
            () = &mut hung_up, if has_ended => return,
            line = lines.next(), if !has_ended => match line {
                Ok(Some(line)) => {
                    unused = 0;
                    if connection.take(&line.bytes, line.held).await.is_err() {
                        return;
                    }
                }
                Ok(None) => {
                    // The client can still read responses but can no longer answer calls from its scripts.
                    (has_ended, is_ending) = (true, true);
                    connection.tasks.close();
                    connection.peer.close();
                }
                Err(error) => {
                    let error = RpcError::new(INVALID_REQUEST, error.to_string());
                    let _ = connection.outbox.send_short(message::response(&RpcId::null(), &Err(error))).await;
                    return;
                }
            },
            _ = look.tick() => {
                unused = if connection.is_idle() { unused + 1 } else { 0 };
                if look.period().saturating_mul(unused) > daemon.0.config.idle {
                    return;
                }
            }
        }
    }
}

/// Serves a single client over standard input and output. Returns after the running requests have finished, when the
/// client has closed its input or the daemon stops. Also returns when the client is idle for too long or cannot be
/// read. No other code may write to standard output.
pub async fn serve_stdio(daemon: &Daemon) {
    match daemon.place() {
        Some(place) => serve_client(place, tokio::io::stdin(), tokio::io::stdout(), std::future::pending()).await,
        None => refuse_connection(daemon, tokio::io::stdout()).await,
    }
}

/// Refuses a client that exceeds the connection limit.
pub(super) async fn refuse_connection<W: AsyncWrite + Unpin>(daemon: &Daemon, output: W) {
    let most = daemon.0.config.connections;
    let message = format!("limit of {most} connections reached; close one first");
    let _ = refuse(output, "quota-exceeded", &message).await;
}

/// Sends an error to a client that is not served.
pub(super) async fn refuse<W: AsyncWrite + Unpin>(mut output: W, code: &str, message: &str) -> io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let error = RpcError::named(message::REFUSED, code, message);
    let text = message::response(&RpcId::null(), &Err(error)) + "\n";
    let written = tokio::time::timeout(Duration::from_secs(1), output.write_all(text.as_bytes()));
    written.await.map_err(|_| io::ErrorKind::TimedOut)?
}

#[cfg(unix)]
pub use unix::{serve, serve_stream};

#[cfg(unix)]
mod unix {
    use std::time::Duration;

    use tokio::{
        io::Interest,
        net::{UnixStream, unix::UCred},
    };
    use tokio_util::task::TaskTracker;

    use super::{Daemon, refuse, refuse_connection, serve_client};
    use crate::daemon::Listener;

    /// Pause after a failed `accept`, for example because no file descriptors are left.
    const PAUSE: Duration = Duration::from_millis(50);
    /// The polling interval for detecting that a client has stopped reading, after it has closed its sending side.
    const HANG_UP_LOOK: Duration = Duration::from_millis(50);

    /// Serves clients until the daemon stops and all running requests have finished.
    pub async fn serve(daemon: &Daemon, listener: Listener) {
        let clients = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = daemon.stopped() => break,
            };
            match accepted {
                Ok(stream) => {
                    let daemon = daemon.clone();
                    clients.spawn(async move { serve_stream(&daemon, stream).await });
                }
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        clients.close();
        clients.wait().await;
    }

    /// Serves a client. Refuses clients of other users and clients that exceed the connection limit.
    pub async fn serve_stream(daemon: &Daemon, stream: UnixStream) {
        if !stream.peer_cred().as_ref().is_ok_and(is_this_user) {
            let _ = refuse(stream, "forbidden", "this daemon belongs to another user; start your own").await;
            return;
        }
        let Some(place) = daemon.place() else { return refuse_connection(daemon, stream).await };
        // The socket is split into two halves, so detecting a hang-up needs a second descriptor.
        let Ok((stream, watched)) = twice(stream) else { return };
        let hung_up = async move {
            while watched.ready(Interest::WRITABLE).await.is_ok_and(|ready| !ready.is_write_closed()) {
                tokio::time::sleep(HANG_UP_LOOK).await;
            }
        };
        let (input, output) = stream.into_split();
        serve_client(place, input, output, hung_up).await;
    }

    fn is_this_user(peer: &UCred) -> bool {
        peer.uid() == rustix::process::geteuid().as_raw()
    }

    fn twice(stream: UnixStream) -> std::io::Result<(UnixStream, UnixStream)> {
        let stream = stream.into_std()?;
        let watched = stream.try_clone()?;
        Ok((UnixStream::from_std(stream)?, UnixStream::from_std(watched)?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn peer_in_the_same_process_has_the_same_user() {
            let (one, _other) = UnixStream::pair().unwrap();
            assert!(is_this_user(&one.peer_cred().unwrap()));
        }
    }
}
