//! The main loop of a worker, and its reports to its parent: lines of JSON on its standard output.

use std::{
    collections::HashSet,
    fmt,
    io::{self, BufRead, BufReader, Read as _, Write},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Confinement, confine::die_with_parent, connections::accept};
use crate::{
    Service,
    audit::{Acted, Ended},
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

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The work that a worker did for a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The result of the execution, if one was started.
    pub(crate) ended: Option<Ended>,
    /// The outcome of any other operation on a session.
    #[serde(default)]
    pub(crate) acted: Option<Acted>,
}

/// A line of a worker's output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The worker is ready.
    Ready { confinement: Confinement },
    /// The work for a request is complete.
    Done {
        request: u64,
        #[serde(flatten)]
        done: Done,
    },
    /// The number of sessions in the worker's memory, and the bytes that they hold.
    Sessions { count: u64, bytes: u64 },
}

impl Report {
    /// Reads the next line. Returns `None` at the end of the stream.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = Vec::new();
        from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
    }
}

/// Writes the reports of a worker.
pub(crate) struct Reporter {
    out: Mutex<Box<dyn Write + Send>>,
    /// The numbers of the requests in progress.
    running: Mutex<HashSet<u64>>,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    pub(crate) fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Mutex::new(Box::new(out)), running: Mutex::default() }
    }

    /// Write errors are ignored: if the parent is gone, this process is ended by other means.
    pub(crate) fn report(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }

    pub(crate) fn begin(self: &Arc<Self>, request: u64) -> Arc<RequestReport> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(request);
        Arc::new(RequestReport { reporter: Arc::clone(self), request, done: Mutex::default() })
    }

    /// Returns `true` while a request is in progress.
    pub(crate) fn is_running(&self, request: u64) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains(&request)
    }
}

/// A request in progress. When the last handle is dropped, the request is reported to the parent as complete.
#[derive(Debug)]
pub(crate) struct RequestReport {
    reporter: Arc<Reporter>,
    request: u64,
    done: Mutex<Done>,
}

impl RequestReport {
    /// Records the result of an execution.
    pub(crate) fn ended(&self, ended: Ended) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).ended = Some(ended);
    }

    /// Records another operation on a session.
    pub(crate) fn acted(&self, acted: Acted) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).acted = Some(acted);
    }
}

impl Drop for RequestReport {
    fn drop(&mut self) {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        self.reporter.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
        self.reporter.report(&Report::Done { request: self.request, done });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written_and_a_long_one_is_refused() {
        let line = br#"{"done":{"request":7,"ended":{"Err":{"code":"session-busy","has_run":false}}}}"#;
        let mut lines: &[u8] = &[line.as_slice(), b"\n", &vec![b' '; 70_000], b"\n"].concat();
        let Ok(Some(Report::Done { request: 7, done: Done { ended: Some(Err(failed)), acted: None } })) =
            Report::read(&mut lines)
        else {
            panic!("it is another line");
        };
        assert_eq!((&*failed.code, failed.has_run), ("session-busy", false));
        assert!(Report::read(&mut lines).is_err(), "no line is that long");
        assert!(matches!(Report::read(&mut &b""[..]), Ok(None)));
    }
}
