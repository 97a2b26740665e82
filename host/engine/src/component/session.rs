//! `resource session`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    blob::Bytes,
    convert,
    error::{Failure, refused},
    files::Snapshot,
    quotas::{Of, Share},
    started::Stepped,
    wit::{
        sandbox::{HostSession, SessionOptions},
        types::{CheckpointInfo, Execution, GuestValue, IfExists, Policy, Request, Runtime, SandboxError, SessionInfo},
    },
};
use crate::{CheckpointId, HibernateOptions, ResumeOptions, Session};

/// A session of the component's. Its clones are the same one: started executions hold them.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Clone, Debug)]
pub struct KeptSession {
    pub(super) session: Session,
    /// Whether a started execution of it has not ended.
    is_busy: Arc<AtomicBool>,
    _share: Arc<Share>,
}

/// A session is busy while this lives.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl KeptSession {
    fn new(session: Session, share: Share) -> Self {
        Self { session, is_busy: Arc::default(), _share: Arc::new(share) }
    }

    /// The session, if it is not busy: the component would wait for what only it can answer.
    pub(super) fn idle(&self) -> Result<&Session, SandboxError> {
        if self.is_busy.load(Ordering::SeqCst) { Err(self.busy()) } else { Ok(&self.session) }
    }

    /// Makes the session busy.
    pub(super) fn occupy(&self) -> Result<Busy, SandboxError> {
        if self.is_busy.swap(true, Ordering::SeqCst) { Err(self.busy()) } else { Ok(Busy(Arc::clone(&self.is_busy))) }
    }

    fn busy(&self) -> SandboxError {
        let id = self.session.id();
        SandboxError::SessionBusy(format!("an execution that was started in session `{id}` has not come to its end"))
    }
}

/// JSON text of the component's.
fn json(what: &str, text: &str) -> Result<Value, SandboxError> {
    serde_json::from_str(text).map_err(|error| SandboxError::InvalidArgument(format!("{what} is no JSON: {error}")))
}

impl SandboxCtx {
    fn idle(&self, session: &Resource<KeptSession>) -> Result<Session, Failure> {
        Ok(self.get(session)?.idle()?.clone())
    }
}

impl HostSession for SandboxCtx {
    fn open(
        &mut self,
        runtime: Runtime,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<KeptSession>, Failure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let share = self.meter.take(Of::Session)?;
        let mut opened = crate::SessionOptions::default();
        if let Some(context) = &options.context {
            opened = opened.context(json("`context`", context)?);
        }
        let session = sandbox.open_session(opened)?;
        self.put(KeptSession::new(session, share))
    }

    fn resume(
        &mut self,
        runtime: Runtime,
        state: Resource<Bytes>,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<KeptSession>, Failure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let share = self.meter.take(Of::Session)?;
        let session = sandbox.resume(self.get(&state)?.as_slice(), ResumeOptions::default())?;
        if let Some(context) = &options.context {
            session.set_variable("context", &json("`context`", context)?)?;
        }
        self.put(KeptSession::new(session, share))
    }

    fn id(&mut self, session: Resource<KeptSession>) -> wasmtime::Result<String> {
        Ok(self.get(&session)?.session.id().to_owned())
    }

    fn info(&mut self, session: Resource<KeptSession>) -> wasmtime::Result<SessionInfo> {
        Ok(self.get(&session)?.session.info().into())
    }

    fn execute(&mut self, session: Resource<KeptSession>, request: Request) -> Result<Execution, Failure> {
        let session = self.idle(&session)?;
        let bill = self.meter.execution(session.sandbox().policy().limits.fuel)?;
        let execution = session.run(convert::request(&request).cancel(&self.cancel))?;
        bill.settle(execution.fuel_consumed);
        Ok(execution.into())
    }

    fn start(&mut self, session: Resource<KeptSession>, request: Request) -> Result<Resource<Stepped>, Failure> {
        self.start_in_session(&session, request)
    }

    fn get_variable(&mut self, session: Resource<KeptSession>, name: String) -> Result<Option<GuestValue>, Failure> {
        Ok(self.idle(&session)?.get_variable(&name)?.map(GuestValue::from))
    }

    fn set_variable(&mut self, session: Resource<KeptSession>, name: String, text: String) -> Result<(), Failure> {
        Ok(self.idle(&session)?.set_variable(&name, &json("the value", &text)?)?)
    }

    fn files(&mut self, session: Resource<KeptSession>) -> Result<Resource<Snapshot>, Failure> {
        let files = self.idle(&session)?.files().snapshot().map_err(refused(""))?;
        self.put_files(files)
    }

    fn write_file(
        &mut self,
        session: Resource<KeptSession>,
        path: String,
        bytes: Vec<u8>,
        if_exists: IfExists,
    ) -> Result<(), Failure> {
        self.idle(&session)?.files().write(&path, bytes, if_exists.into()).map_err(refused(&path))
    }

    fn write_file_from(
        &mut self,
        session: Resource<KeptSession>,
        path: String,
        contents: Resource<Bytes>,
        if_exists: IfExists,
    ) -> Result<(), Failure> {
        let contents = self.get(&contents)?.as_slice();
        self.idle(&session)?.files().write(&path, contents, if_exists.into()).map_err(refused(&path))
    }

    fn rename_file(
        &mut self,
        session: Resource<KeptSession>,
        from: String,
        to: String,
        if_exists: IfExists,
    ) -> Result<(), Failure> {
        self.idle(&session)?.files().rename(&from, &to, if_exists.into()).map_err(refused(&from))
    }

    fn delete_file(&mut self, session: Resource<KeptSession>, path: String, recursive: bool) -> Result<(), Failure> {
        let files = self.idle(&session)?.files();
        let deleted = if recursive { files.delete_all(&path) } else { files.delete(&path) };
        deleted.map_err(refused(&path))
    }

    fn fork(&mut self, session: Resource<KeptSession>) -> Result<Resource<KeptSession>, Failure> {
        let session = self.idle(&session)?;
        let share = self.meter.take(Of::Session)?;
        let fork = session.fork()?;
        self.put(KeptSession::new(fork, share))
    }

    fn checkpoint(&mut self, session: Resource<KeptSession>) -> Result<u64, Failure> {
        Ok(self.idle(&session)?.checkpoint()?.0)
    }

    fn checkpoints(&mut self, session: Resource<KeptSession>) -> Result<Vec<CheckpointInfo>, Failure> {
        Ok(self.idle(&session)?.checkpoints()?.into_iter().map(CheckpointInfo::from).collect())
    }

    fn undo(&mut self, session: Resource<KeptSession>) -> Result<u64, Failure> {
        Ok(self.idle(&session)?.undo()?.0)
    }

    fn undo_to(&mut self, session: Resource<KeptSession>, id: u64) -> Result<(), Failure> {
        Ok(self.idle(&session)?.undo_to(CheckpointId(id))?)
    }

    fn hibernate(&mut self, session: Resource<KeptSession>) -> Result<Resource<Bytes>, Failure> {
        let state = self.idle(&session)?.hibernate(&HibernateOptions::default())?;
        let mut bytes = Bytes::new(self)?;
        bytes.append(&state)?;
        self.put(bytes)
    }

    fn close(&mut self, session: Resource<KeptSession>) -> Result<(), Failure> {
        Ok(self.idle(&session)?.close()?)
    }

    fn drop(&mut self, session: Resource<KeptSession>) -> wasmtime::Result<()> {
        self.take(session).map(drop)
    }
}
