//! The main loop of a worker.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    thread,
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde::de::DeserializeOwned;

use super::{Confinement, confine::die_with_parent, connections::accept, report::Report};
use crate::{
    Service,
    http::{HttpConfig, Tenants, worker_router},
};

/// Maximum length of the orders, in bytes.
const MAX_ORDERS_BYTES: u64 = 16 << 20;
/// Interval of the reports on session memory.
const COUNT: Duration = Duration::from_secs(1);
/// Timeout for running executions after the parent has closed its socket.
const END: Duration = Duration::from_secs(5);

/// This process cannot run as a worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The process was not started by a server.
    #[error("a worker can be started only by `glovebox serve --workers`")]
    NotStarted(#[source] io::Error),
    /// The orders are not valid JSON for the expected type.
    #[error("cannot parse the server's orders")]
    Orders(#[source] serde_json::Error),
}

/// Reads the orders of the parent's [`WorkersConfig`](super::WorkersConfig), and ties this process to the parent: it
/// ends when the parent does. Call it first.
///
/// # Errors
/// Fails if this process was not started as a worker.
pub fn orders<T: DeserializeOwned>() -> Result<T, WorkerError> {
    die_with_parent().map_err(WorkerError::NotStarted)?;
    let socket = socket().map_err(WorkerError::NotStarted)?;
    socket.peer_addr().map_err(WorkerError::NotStarted)?;
    let mut line = Vec::new();
    // The parent sends nothing after the line until this worker reports that it is ready.
    let read = BufReader::new(socket).take(MAX_ORDERS_BYTES).read_until(b'\n', &mut line);
    read.map_err(WorkerError::NotStarted)?;
    serde_json::from_slice(&line).map_err(WorkerError::Orders)
}

/// The socket to the parent, which is standard input.
fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Serves the parent until it closes its socket, and then drains. The caller saves the sessions.
///
/// # Errors
/// Fails if this process was not started as a worker.
pub async fn serve(
    service: &Service,
    tenants: Tenants,
    config: &HttpConfig,
    confinement: Confinement,
) -> Result<(), WorkerError> {
    let socket = socket().map_err(WorkerError::NotStarted)?;
    let routes = worker_router(service, tenants, config);
    let Some(reporter) = &service.0.reporter else {
        return Err(WorkerError::NotStarted(io::Error::other("the service is not configured as a worker")));
    };
    let (sender, mut connections) = tokio::sync::mpsc::unbounded_channel();
    let runtime = tokio::runtime::Handle::current();
    let accepting = move || {
        // The number of connections is not limited here: only the parent makes them, one for each concurrent request.
        while let Some(connection) = accept(&socket, &runtime) {
            if sender.send(connection).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("connections".into()).spawn(accepting).map_err(WorkerError::NotStarted)?;
    reporter.report(&Report::Ready { confinement });
    let serving = async {
        while let Some(connection) = connections.recv().await {
            let connection = http1::Builder::new()
                .serve_connection(TokioIo::new(connection), TowerToHyperService::new(routes.clone()));
            tokio::spawn(connection);
        }
    };
    let count = async {
        let mut before = (0, 0);
        loop {
            tokio::time::sleep(COUNT).await;
            let now = service.session_usage();
            if now != before {
                reporter.report(&Report::Sessions { count: now.0, bytes: now.1 });
                before = now;
            }
        }
    };
    tokio::select! {
        () = serving => {}
        () = count => {}
    }
    service.drain(END).await;
    Ok(())
}
