//! What a worker does.

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

/// The longest orders.
const MAX_ORDERS_BYTES: u64 = 16 << 20;
/// How often sessions are counted.
const COUNT: Duration = Duration::from_secs(1);
/// How long what runs may take to end when the parent is gone.
const END: Duration = Duration::from_secs(5);

/// This process cannot be a worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// It was not started as one.
    #[error("this is started by `glovebox serve --workers`, and not by hand")]
    NotStarted(#[source] io::Error),
    /// Its orders cannot be read.
    #[error("the orders of the server cannot be read")]
    Orders(#[source] serde_json::Error),
}

/// What this worker is told: the orders of its [`WorkersConfig`](super::WorkersConfig). From now on it ends with its parent. Call it first.
///
/// # Errors
/// When this process was not started as a worker.
pub fn orders<T: DeserializeOwned>() -> Result<T, WorkerError> {
    die_with_parent().map_err(WorkerError::NotStarted)?;
    let socket = socket().map_err(WorkerError::NotStarted)?;
    socket.peer_addr().map_err(WorkerError::NotStarted)?;
    let mut line = Vec::new();
    // Nothing comes after the line until this worker says that it serves.
    let read = BufReader::new(socket).take(MAX_ORDERS_BYTES).read_until(b'\n', &mut line);
    read.map_err(WorkerError::NotStarted)?;
    serde_json::from_slice(&line).map_err(WorkerError::Orders)
}

/// The pair of sockets whose other end the parent has: standard input.
fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Serves the parent until it has no more to ask, and lets what runs end. Sessions are for the caller to save.
///
/// # Errors
/// When this process was not started as a worker.
pub async fn serve(
    service: &Service,
    tenants: Tenants,
    config: &HttpConfig,
    confinement: Confinement,
) -> Result<(), WorkerError> {
    let socket = socket().map_err(WorkerError::NotStarted)?;
    let routes = worker_router(service, tenants, config);
    let Some(reporter) = &service.0.reporter else {
        return Err(WorkerError::NotStarted(io::Error::other("the service is not a worker's")));
    };
    let (sender, mut connections) = tokio::sync::mpsc::unbounded_channel();
    let runtime = tokio::runtime::Handle::current();
    let accepting = move || {
        // It is the parent alone that makes connections, as many as it has requests.
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
