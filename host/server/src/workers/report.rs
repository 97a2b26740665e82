//! What a worker tells its parent beside its answers: lines of JSON on its standard output.

use std::{
    collections::HashSet,
    fmt,
    io::{self, BufRead, Read as _, Write},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::Confinement;
use crate::{audit::Acted, executed::Ended};

/// The longest line that a parent takes from a worker.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What was done for a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Of an execution that was begun.
    pub(crate) ended: Option<Ended>,
    /// Of what else was done with a session.
    #[serde(default)]
    pub(crate) acted: Option<Acted>,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// It serves from now on.
    Ready { confinement: Confinement },
    /// Nothing is done for this request any more.
    Done {
        request: u64,
        #[serde(flatten)]
        done: Done,
    },
    /// Its sessions in memory, and what they hold.
    Sessions { count: u64, bytes: u64 },
}

impl Report {
    /// The next line; nothing at the end of the stream.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = Vec::new();
        from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
    }
}

/// Where a worker reports to.
pub(crate) struct Reporter {
    out: Mutex<Box<dyn Write + Send>>,
    /// The requests for which something is being done.
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

    /// A parent that is gone ends this process in another way.
    pub(crate) fn report(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }

    pub(crate) fn begin(self: &Arc<Self>, request: u64) -> Arc<Told> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(request);
        Arc::new(Told { reporter: Arc::clone(self), request, done: Mutex::default() })
    }

    /// Whether something is being done for a request.
    pub(crate) fn is_running(&self, request: u64) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains(&request)
    }
}

/// A request for which something is being done. When the last of those who do has dropped it, the parent is told.
#[derive(Debug)]
pub(crate) struct Told {
    reporter: Arc<Reporter>,
    request: u64,
    done: Mutex<Done>,
}

impl Told {
    /// An execution has ended like this.
    pub(crate) fn ended(&self, ended: Ended) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).ended = Some(ended);
    }

    /// Something else was done with a session.
    pub(crate) fn acted(&self, acted: Acted) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).acted = Some(acted);
    }
}

impl Drop for Told {
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
