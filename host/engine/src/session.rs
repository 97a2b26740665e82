//! A session: an interpreter that is kept between executions.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox_interpreters::Machine;

use crate::{
    CancelToken, ExecuteError, Execution, Request, Sandbox, current::Run, entropy, guest::Guest, run::Setting,
    workspace::Roots,
};

/// How many sessions an engine keeps, and what they hold.
#[derive(Debug, Default)]
pub(crate) struct SessionLedger(Arc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// One session's place in the ledger.
#[derive(Debug)]
struct Place {
    totals: Arc<Totals>,
    bytes: u64,
}

impl SessionLedger {
    fn enter(&self, most_count: u64, most_bytes: u64) -> Result<Place, ExecuteError> {
        let bytes = self.0.bytes.load(Ordering::SeqCst);
        if bytes > most_bytes {
            return Err(ExecuteError::TooManySessions {
                key: "limits.session_total_bytes",
                used: bytes,
                most: most_bytes,
            });
        }
        let taken = self
            .0
            .count
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < most_count).then_some(count + 1));
        match taken {
            Ok(_) => Ok(Place { totals: Arc::clone(&self.0), bytes: 0 }),
            Err(used) => Err(ExecuteError::TooManySessions { key: "limits.session_count", used, most: most_count }),
        }
    }
}

impl Place {
    fn update(&mut self, bytes: u64) {
        self.totals.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.bytes = bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.update(0);
        self.totals.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An interpreter that is kept between executions: variables, functions, classes, imports and files live on. It holds
/// memory and neither a thread nor a stack while it rests.
///
/// A script that raises keeps what it did. One that is unwound at a limit, cancelled, or leaves by `os._exit` ends the
/// session: an unwound interpreter is never entered again, and later executions say so.
pub struct Session {
    sandbox: Sandbox,
    guest: Guest,
    roots: Roots,
    id: String,
    ended: Option<String>,
    place: Place,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn open(sandbox: &Sandbox) -> Result<Self, ExecuteError> {
        let inner = &sandbox.0;
        if inner.runtime.image().is_none() {
            return Err(ExecuteError::NotPrepared { name: inner.runtime.name.clone() });
        }
        let limits = &inner.policy.limits;
        let place = inner.engine.0.sessions.enter(u64::from(limits.session_count), limits.session_total_bytes)?;
        let mut id = [0; 16];
        entropy::fill(&mut id);
        let id = format!("{:032x}", u128::from_le_bytes(id));
        let setting = Setting::new(sandbox, Request::new(""))?;
        let (guest, roots) = inner
            .engine
            .0
            .on_stack(|| sandbox.guest(&setting, Run::new(limits.timeout(), CancelToken::new(), None)))??;
        let mut session = Self { sandbox: sandbox.clone(), guest, roots, id, ended: None, place };
        session.account();
        Ok(session)
    }

    /// The session's id: 128 random bits in hexadecimal.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs `source` in the kept interpreter.
    pub fn execute(&mut self, source: &str) -> Result<Execution, ExecuteError> {
        self.run(Request::new(source))
    }

    /// Runs a request in the kept interpreter. Standard input is this request's; what an earlier one left unread is gone.
    pub fn run(&mut self, request: Request<'_>) -> Result<Execution, ExecuteError> {
        if let Some(reason) = &self.ended {
            return Err(ExecuteError::SessionEnded { id: self.id.clone(), reason: reason.clone() });
        }
        let sandbox = self.sandbox.clone();
        let id = self.id.clone();
        let mut setting = Setting::new(&sandbox, request.session_id(&id))?;
        let result = sandbox.0.engine.0.on_stack(|| {
            // Stands if a panic, of an output callback say, unwinds the guest past what follows.
            self.ended = Some("its last execution did not come back".to_owned());
            let run = setting.start();
            self.guest.machine.store.data_mut().run.renew(run);
            let wasi = self.guest.machine.wasi();
            wasi.begin_execution();
            wasi.set_stdin(setting.stdin.to_vec());
            wasi.vfs_mut().mark();
            setting.execute(&mut self.guest, &self.roots, false)
        })?;
        self.ended = None;
        self.account();
        match result {
            Ok((execution, alive)) => {
                if !alive {
                    self.ended = Some(execution.outcome.describe());
                }
                Ok(execution)
            }
            Err(error) => {
                // Where the guest itself did run, it may be used again; where it did not answer, it may not. The outcome
                // does not tell: `sys.exit` and `os._exit` have the same.
                match &error {
                    ExecuteError::Commit { .. } if !self.guest.is_unwound => {}
                    _ => self.ended = Some(error.to_string()),
                }
                Err(error)
            }
        }
    }

    /// Why the session has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Ends the session: the interpreter's exit handlers run, within the limits of one execution, and what they write
    /// reaches host directories as after a successful one.
    pub fn close(mut self) -> Result<(), ExecuteError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let inner = &self.sandbox.0;
        inner.engine.0.on_stack(|| {
            let run = Run::new(inner.policy.limits.timeout(), CancelToken::new(), None);
            self.guest.machine.store.data_mut().run.renew(run);
            self.guest.machine.wasi().begin_execution();
            self.guest.close(&inner.runtime, &inner.policy.limits)?;
            let vfs = self.guest.machine.wasi().vfs_mut();
            inner.workspace.commit(vfs, &self.roots.roots, true).map_err(|(_, source)| source.into())
        })?
    }

    /// Writes down what the session holds: memory grown beyond the shared image, and what the host keeps for it.
    fn account(&mut self) {
        let image_bytes = self.sandbox.0.runtime.image().map_or(0, |image| image.memory_bytes);
        let linear_bytes = self.guest.machine.memory_bytes();
        let host_bytes = self.guest.machine.wasi().host_bytes();
        self.place.update(linear_bytes.saturating_sub(image_bytes).saturating_add(host_bytes));
    }
}
