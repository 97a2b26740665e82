//! `resource session`: interpreters that persist between executions.
//!
//! * [`Session`]: the caller's handle.
//! * `resident`: the component's platform for the session state machine of `glovebox-core`, and the memory of a
//!   session's guest, which is either in use by the runtime or evicted.
//! * `zstandard`: the compression of hibernated sessions.

mod resident;
mod zstandard;

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell, RefMut},
    fmt,
    rc::{Rc, Weak},
};

use glovebox_core::{
    MemoryLimit,
    contract::{check_json, check_variable_name},
    files::{FileError, IfExists, change},
    hibernate::{self, Caps, ImageView},
    session::{Checkpoint, CheckpointId, Pages, RandomNumbers, SessionCall, SessionInfo, SessionLedger, SessionState},
};
use glovebox_vfs::{RootId, Vfs};
use resident::{ComponentBackend, Image, change_files};

use self::zstandard::Zstandard;
use crate::{
    Blob, Files, FinishedExecution, GuestMemory, Live, Sandbox, Started, Task,
    bindings::{
        SessionOptions,
        types::{self, SandboxError},
    },
    started::{no_tools, refused},
};

pub(crate) use self::resident::{Residence, ResidentMemory};

/// All sessions of one provider.
#[derive(Debug, Default)]
pub struct Sessions {
    ledger: SessionLedger,
    named: Cell<u64>,
}

impl Sessions {
    /// Returns a session ID that is unique in this provider.
    fn name(&self) -> Rc<str> {
        let number = self.named.get().saturating_add(1);
        self.named.set(number);
        format!("session-{number}").into()
    }
}

type ComponentSession = SessionState<ComponentBackend>;

/// A handle to an interpreter that persists between executions. Clones refer to the same session.
#[derive(Clone)]
pub struct Session {
    sessions: Rc<Sessions>,
    id: Rc<str>,
    state: Rc<RefCell<ComponentSession>>,
    /// The description of the session while `state` is in a call.
    info: Rc<RefCell<SessionInfo>>,
    /// A reference that is valid until the last started execution has run or is dropped.
    started: Rc<RefCell<Weak<()>>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a session with a new guest.
    pub fn open(sessions: &Rc<Sessions>, sandbox: Sandbox, options: &SessionOptions) -> Result<Self, SandboxError> {
        check_options(options)?;
        let place = sessions.ledger.enter(&sandbox.policy.limits, 0)?;
        let id = sessions.name();
        let mut guest = sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx())?;
        guest.machine.make_resident(Pages::default(), false);
        let key = sandbox.policy.entropy.key();
        let state = ComponentSession::new(ComponentBackend::new(sandbox, &id), guest, key, place);
        Self::from_state(sessions, id, state).with_context(options)
    }

    /// Creates a session from the bytes that [`hibernate`](Self::hibernate) returned, in this or another provider.
    pub fn resume(
        sessions: &Rc<Sessions>,
        sandbox: Sandbox,
        bytes: &[u8],
        options: &SessionOptions,
    ) -> Result<Self, SandboxError> {
        check_options(options)?;
        let limits = &sandbox.policy.limits;
        let saved =
            with_image(&sandbox, |image| hibernate::decode(bytes, image, &Zstandard, &Caps::of(limits), None, ""))?;
        let wasi = sandbox.wasi(Vec::new(), &[])?;
        let limit = MemoryLimit::of_image(limits.memory_bytes, sandbox.runtime.memory_bytes());
        let saved = saved.state(wasi, limit, sandbox.policy.entropy)?;
        Self::from_checkpoint(sessions, sandbox, saved, RandomNumbers::Same)?.with_context(options)
    }

    fn from_checkpoint(
        sessions: &Rc<Sessions>,
        sandbox: Sandbox,
        saved: Checkpoint,
        numbers: RandomNumbers,
    ) -> Result<Self, SandboxError> {
        let place = sessions.ledger.enter(&sandbox.policy.limits, saved.held_bytes())?;
        let id = sessions.name();
        let state = ComponentSession::resume(ComponentBackend::new(sandbox, &id), saved, numbers, place)?;
        Ok(Self::from_state(sessions, id, state))
    }

    fn from_state(sessions: &Rc<Sessions>, id: Rc<str>, state: ComponentSession) -> Self {
        let runtime = &state.backend().sandbox.runtime;
        let info = Rc::new(RefCell::new(SessionInfo::new(&id, runtime.language, &runtime.name)));
        Self { sessions: Rc::clone(sessions), id, state: Rc::new(RefCell::new(state)), info, started: Rc::default() }
    }

    fn with_context(self, options: &SessionOptions) -> Result<Self, SandboxError> {
        if let Some(json) = &options.context {
            self.set(|state| {
                state.backend().sandbox.check_value(json)?;
                state.set_variable("context", json)
            })?;
        }
        Ok(self)
    }

    /// Runs `work` on the session. Fails if the session has ended, or if a started execution has not run yet.
    fn set<R>(&self, work: impl FnOnce(&mut ComponentSession) -> Result<R, SandboxError>) -> Result<R, SandboxError> {
        let mut state = self.borrow_idle()?;
        state.check_alive()?;
        state.update(&mut self.info.borrow_mut());
        work(&mut state)
    }

    fn borrow_idle(&self) -> Result<RefMut<'_, ComponentSession>, SandboxError> {
        let is_started = self.started.try_borrow().is_ok_and(|started| started.strong_count() > 0);
        let state = self.state.try_borrow_mut().ok().filter(|_| !is_started);
        state.ok_or_else(|| {
            let text = "an execution started in the session has not ended; wait for its end, or drop it";
            SandboxError::SessionBusy(text.into())
        })
    }

    /// Returns the session's ID.
    #[must_use]
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns the session's description, without the effects of a call that has not returned.
    #[must_use]
    pub fn info(&self) -> types::SessionInfo {
        if let Ok(mut state) = self.state.try_borrow_mut() {
            state.update(&mut self.info.borrow_mut());
        }
        self.info.borrow().clone().into()
    }

    /// Runs a script in the session's interpreter.
    pub fn execute(&self, request: types::Request) -> Result<FinishedExecution, SandboxError> {
        request.check_in_session()?;
        self.set(|state| {
            let task = state.backend().sandbox.task(request)?;
            self.run(state, task)
        })
    }

    fn run(&self, state: &mut ComponentSession, task: Task) -> Result<FinishedExecution, SandboxError> {
        let task = &task.in_session(self.id());
        let execute = |SessionCall { backend, guest, .. }: SessionCall<'_, ComponentBackend>| {
            guest.ctx_mut().renew(backend.sandbox.start(task));
            let executed = backend.sandbox.execute_in(guest, task, false)?;
            let after = executed.ran.after;
            Ok((executed, after))
        };
        let (mut executed, rollback) = state.run(&task.stdin, execute, |executed| &executed.ran.outcome)?;
        executed.rolled_back_to = rollback;
        executed.session_id = Some(self.id());
        Ok(executed)
    }

    /// Starts an execution in the session, which the caller observes.
    pub fn start(&self, request: types::Request) -> Result<Started, SandboxError> {
        request.check_in_session()?;
        let task = self.set(|state| state.backend().sandbox.task(request))?;
        let waits = Rc::new(());
        self.started.replace(Rc::downgrade(&waits));
        let session = self.clone();
        let begin = move |live: &Rc<Live>| {
            drop(waits);
            session.set(|state| session.run(state, task.observed_by(live)))
        };
        Ok(Started::new(Box::new(begin)).in_session())
    }

    /// Returns a global variable's value; `None` if the variable does not exist.
    pub fn get_variable(&self, name: &str) -> Result<Option<types::GuestValue>, SandboxError> {
        Ok(self.set(|state| state.get_variable(name))?.map(Into::into))
    }

    /// Sets a global variable to the value of `json`.
    pub fn set_variable(&self, name: &str, json: &str) -> Result<(), SandboxError> {
        check_variable_name(name)?;
        check_json("json", json)?;
        self.set(|state| {
            state.backend().sandbox.check_value(json)?;
            state.set_variable(name, json)
        })
    }

    /// Changes the files from outside the guest. Errors contain `path`.
    fn change(
        &self,
        path: &str,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<(), FileError>,
    ) -> Result<(), SandboxError> {
        self.set(|state| state.with_files(|call| change_files(call, work).map_err(refused(path))))
    }

    /// Returns a snapshot of the files.
    pub fn files(&self) -> Result<Files, SandboxError> {
        Ok(Files::new(self.set(ComponentSession::files)?))
    }

    /// Returns the maximum size of a file, in bytes. Fails if the session cannot be used.
    pub fn max_file_bytes(&self) -> Result<u64, SandboxError> {
        self.set(|state| {
            let limits = &state.backend().sandbox.policy.limits;
            Ok(limits.workspace_bytes.min(limits.memory_bytes))
        })
    }

    /// Writes a file and creates missing ancestor directories.
    pub fn write_file(&self, path: &str, bytes: &[u8], if_exists: types::IfExists) -> Result<(), SandboxError> {
        let if_exists = IfExists::from(if_exists);
        self.change(path, |vfs, root| change::write(vfs, root, path, bytes, if_exists))
    }

    /// Renames a file, directory or link.
    pub fn rename_file(&self, from: &str, to: &str, if_exists: types::IfExists) -> Result<(), SandboxError> {
        let if_exists = IfExists::from(if_exists);
        self.change(from, |vfs, root| change::rename(vfs, root, from, to, if_exists))
    }

    /// Removes a file, a link or an empty directory. With `recursive`, also removes a directory with everything below
    /// it.
    pub fn delete_file(&self, path: &str, recursive: bool) -> Result<(), SandboxError> {
        let delete = if recursive { change::delete_all } else { change::delete };
        self.change(path, |vfs, root| delete(vfs, root, path))
    }

    /// Creates a session with a copy of this session's state.
    pub fn fork(&self) -> Result<Self, SandboxError> {
        let (sandbox, saved) = self.set(|state| Ok((state.backend().sandbox.clone(), state.save_for_fork()?)))?;
        Self::from_checkpoint(&self.sessions, sandbox, saved, RandomNumbers::Fork)
    }

    /// Takes a checkpoint and returns its ID.
    pub fn checkpoint(&self) -> Result<u64, SandboxError> {
        Ok(self.set(ComponentSession::checkpoint)?.0)
    }

    /// Returns the session's checkpoints, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<types::CheckpointInfo>, SandboxError> {
        self.set(|state| Ok(state.checkpoints().into_iter().map(Into::into).collect()))
    }

    /// Restores the last checkpoint that differs from the current state, and returns its ID.
    pub fn undo(&self) -> Result<u64, SandboxError> {
        Ok(self.set(|state| state.undo(None))?.0)
    }

    /// Restores a checkpoint and drops all later ones.
    pub fn undo_to(&self, id: u64) -> Result<(), SandboxError> {
        self.set(|state| state.undo(Some(CheckpointId(id)))).map(drop)
    }

    /// Returns the session's saved state as bytes.
    pub fn hibernate(&self) -> Result<Blob, SandboxError> {
        let (sandbox, saved) = self.set(|state| Ok((state.backend().sandbox.clone(), state.save()?)))?;
        let saved = hibernate::SavedSession::of(saved);
        let mut bytes = Vec::new();
        let written = with_image(&sandbox, |image| hibernate::encode(&saved, image, &Zstandard, None, "", &mut bytes));
        let failed = |error| SandboxError::Unavailable(format!("the session could not be saved: {error}"));
        written.map_err(failed)?;
        Ok(Blob::new(bytes))
    }

    /// Runs the interpreter's exit handlers and ends the session. Does nothing if the session has ended.
    pub fn close(&self) -> Result<(), SandboxError> {
        self.borrow_idle()?.close()
    }
}

/// Calls `work` with a view of the sandbox's image.
fn with_image<R>(sandbox: &Sandbox, work: impl FnOnce(&ImageView<'_>) -> R) -> R {
    let Sandbox { world, runtime, .. } = sandbox;
    let image = Image::new(GuestMemory::new(Rc::clone(&world.guests), runtime.number), runtime);
    work(&ImageView {
        identity: &runtime.image_sha256,
        runtime: &runtime.name,
        version: Some(&runtime.version),
        language: runtime.language,
        memory_bytes: runtime.memory_bytes(),
        page: &|number| image.original(number),
        globals: &runtime.idle_globals,
    })
}

fn check_options(options: &SessionOptions) -> Result<(), SandboxError> {
    let SessionOptions { context, tools } = options;
    no_tools(tools.as_deref().unwrap_or_default())?;
    Ok(context.iter().try_for_each(|json| check_json("context", json))?)
}
