//! `resource session`: interpreters that are kept between executions.
//!
//! * [`Session`]: what the caller has.
//! * `live`: what it is made of, and what becomes of it when its guest is unwound.
//! * `kept`: its guest, in its runtime's memory or put away; `image`: that memory beside its image.
//! * `zstandard`: what packs hibernated sessions.

mod image;
mod kept;
mod live;
mod zstandard;

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell, RefMut},
    fmt,
    rc::{Rc, Weak},
};

use glovebox_core::{
    contract::{check_json, check_variable_name},
    files::{IfExists, change},
    hibernate::{self, Caps, ImageView, ResumeError, resumed_key},
    session::{Checkpoint, CheckpointId, SessionLedger},
};

pub(crate) use self::kept::Residence;
use self::{
    image::Image,
    live::{Awaken, Live},
    zstandard::Zstandard,
};
use crate::{
    Blob, Executed, Files, Runtime, Sandbox, Started,
    bindings::{
        exports::glovebox::sandbox::sandbox::SessionOptions,
        types::{self, SandboxError},
    },
    provider::no_tools,
};

/// All sessions of a provider.
#[derive(Debug, Default)]
pub struct Sessions {
    ledger: SessionLedger,
    named: Cell<u64>,
}

impl Sessions {
    /// A name that no other session of this provider has.
    fn name(&self) -> Rc<str> {
        let number = self.named.get().saturating_add(1);
        self.named.set(number);
        format!("session-{number}").into()
    }
}

/// An interpreter that is kept between executions. A clone is the same session.
#[derive(Clone)]
pub struct Session {
    sessions: Rc<Sessions>,
    id: Rc<str>,
    runtime: Rc<Runtime>,
    live: Rc<RefCell<Live>>,
    /// Is there while an execution that was started has not run.
    started: Rc<RefCell<Weak<()>>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a session.
    pub fn open(sessions: &Rc<Sessions>, sandbox: Sandbox, options: &SessionOptions) -> Result<Self, SandboxError> {
        check_options(options)?;
        let place = sessions.ledger.enter(&sandbox.policy.limits, 0)?;
        let live = Live::open(sandbox, sessions.name(), place)?;
        Self::around(sessions, live).with_context(options)
    }

    /// Makes a session of what [`hibernate`](Self::hibernate) gave, here or elsewhere.
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
        let mut wasi = sandbox.wasi(Vec::new(), &[])?;
        wasi.set_linear_memory_bytes(sandbox.runtime.memory_limit(limits).counted(saved.memory_bytes));
        wasi.restore(&saved.wasi).map_err(|error| ResumeError::Files { reason: error.to_string() })?;
        let state = Checkpoint {
            memory_bytes: saved.memory_bytes,
            pages: saved.pages,
            globals: saved.globals,
            wasi,
            executions: saved.executions,
            entropy_key: resumed_key(sandbox.policy.entropy, saved.entropy_key),
            forks: saved.forks,
        };
        Self::in_state(sessions, sandbox, &state, Awaken::Same)?.with_context(options)
    }

    fn in_state(
        sessions: &Rc<Sessions>,
        sandbox: Sandbox,
        state: &Checkpoint,
        awaken: Awaken,
    ) -> Result<Self, SandboxError> {
        let place = sessions.ledger.enter(&sandbox.policy.limits, state.held_bytes())?;
        let live = Live::resumed(sandbox, sessions.name(), place, state, awaken)?;
        Ok(Self::around(sessions, live))
    }

    fn around(sessions: &Rc<Sessions>, live: Live) -> Self {
        let (id, runtime) = (Rc::clone(&live.id), Rc::clone(&live.sandbox.runtime));
        Self { sessions: Rc::clone(sessions), id, runtime, live: Rc::new(RefCell::new(live)), started: Rc::default() }
    }

    fn with_context(self, options: &SessionOptions) -> Result<Self, SandboxError> {
        if let Some(json) = &options.context {
            self.set(|live| {
                live.sandbox.check_value(json)?;
                live.set_variable("context", json)
            })?;
        }
        Ok(self)
    }

    /// Does something with the session, unless it has ended or an execution of it has not.
    fn set<R>(&self, work: impl FnOnce(&mut Live) -> Result<R, SandboxError>) -> Result<R, SandboxError> {
        let mut live = self.idle()?;
        live.check_alive()?;
        work(&mut live)
    }

    fn idle(&self) -> Result<RefMut<'_, Live>, SandboxError> {
        let is_started = self.started.try_borrow().is_ok_and(|started| started.strong_count() > 0);
        let live = self.live.try_borrow_mut().ok().filter(|_| !is_started);
        live.ok_or_else(|| {
            let text = "an execution that was started in it has not ended: let `continue` come to `done`, or drop it";
            SandboxError::SessionBusy(text.into())
        })
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// What it is and holds.
    #[must_use]
    pub fn info(&self) -> types::SessionInfo {
        // Nobody can ask while it executes: an instance is not entered twice.
        self.live.try_borrow().map_or_else(|_| live::info_of(&self.id, &self.runtime), |live| live.info()).into()
    }

    /// Runs a script in the kept interpreter.
    pub fn execute(&self, request: types::Request) -> Result<Executed, SandboxError> {
        request.check_in_session()?;
        self.set(|live| {
            let task = live.sandbox.task(request)?.wanting_value();
            live.run(&task)
        })
    }

    /// Begins what `execute` does.
    pub fn start(&self, request: types::Request) -> Result<Started, SandboxError> {
        request.check_in_session()?;
        let task = self.set(|live| Ok(live.sandbox.task(request)?.wanting_value()))?;
        let waits = Rc::new(());
        self.started.replace(Rc::downgrade(&waits));
        let session = self.clone();
        let begin = Box::new(move |is_cancelled| {
            drop(waits);
            session.set(|live| live.run(&if is_cancelled { task.cancelled() } else { task }))
        });
        Ok(Started::new(begin).in_session())
    }

    /// A global variable; none where there is no such one.
    pub fn get_variable(&self, name: &str) -> Result<Option<types::GuestValue>, SandboxError> {
        Ok(self.set(|live| live.get_variable(name))?.map(Into::into))
    }

    /// Sets a global variable to what JSON text says.
    pub fn set_variable(&self, name: &str, json: &str) -> Result<(), SandboxError> {
        check_variable_name(name)?;
        check_json("json", json)?;
        self.set(|live| {
            live.sandbox.check_value(json)?;
            live.set_variable(name, json)
        })
    }

    /// The files as they are now.
    pub fn files(&self) -> Result<Files, SandboxError> {
        self.set(Live::files)
    }

    /// Writes a file, and makes the directories above it.
    pub fn write_file(&self, path: &str, bytes: &[u8], if_exists: types::IfExists) -> Result<(), SandboxError> {
        let if_exists = IfExists::from(if_exists);
        self.set(|live| live.with_files(path, |vfs, root| change::write(vfs, root, path, bytes, if_exists)))
    }

    /// Gives a file, directory or link another name.
    pub fn rename_file(&self, from: &str, to: &str, if_exists: types::IfExists) -> Result<(), SandboxError> {
        let if_exists = IfExists::from(if_exists);
        self.set(|live| live.with_files(from, |vfs, root| change::rename(vfs, root, from, to, if_exists)))
    }

    /// Removes a file, a link or an empty directory; with `recursive`, all that is below a directory as well.
    pub fn delete_file(&self, path: &str, recursive: bool) -> Result<(), SandboxError> {
        let delete = if recursive { change::delete_all } else { change::delete };
        self.set(|live| live.with_files(path, |vfs, root| delete(vfs, root, path)))
    }

    /// Makes a second session of this one.
    pub fn fork(&self) -> Result<Self, SandboxError> {
        let (sandbox, state) = self.set(|live| Ok((live.sandbox.clone(), live.save_for_fork()?)))?;
        Self::in_state(&self.sessions, sandbox, &state, Awaken::Fork)
    }

    /// Saves the state, to come back to it.
    pub fn checkpoint(&self) -> Result<u64, SandboxError> {
        Ok(self.set(Live::checkpoint)?.0)
    }

    /// The states that the session can be set back to, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<types::CheckpointInfo>, SandboxError> {
        self.set(|live| Ok(live.checkpoints().into_iter().map(Into::into).collect()))
    }

    /// Restores the last checkpoint that differs from what the session is now.
    pub fn undo(&self) -> Result<u64, SandboxError> {
        Ok(self.set(|live| live.undo(None))?.0)
    }

    /// Restores a checkpoint. Later ones are forgotten.
    pub fn undo_to(&self, id: u64) -> Result<(), SandboxError> {
        self.set(|live| live.undo(Some(CheckpointId(id)))).map(drop)
    }

    /// The session as bytes.
    pub fn hibernate(&self) -> Result<Blob, SandboxError> {
        let (sandbox, state) = self.set(|live| Ok((live.sandbox.clone(), live.save()?)))?;
        let saved = hibernate::Saved {
            wasi: state.wasi.save(),
            executions: state.executions,
            memory_bytes: state.memory_bytes,
            globals: state.globals,
            entropy_key: state.entropy_key,
            forks: state.forks,
            pages: state.pages,
        };
        let mut bytes = Vec::new();
        let written = with_image(&sandbox, |image| hibernate::encode(&saved, image, &Zstandard, None, "", &mut bytes));
        let failed = |error| SandboxError::Unavailable(format!("the session could not be written: {error}"));
        written.map_err(failed)?;
        Ok(Blob::new(bytes))
    }

    /// Runs the interpreter's exit handlers, and ends the session. Closing again does nothing.
    pub fn close(&self) -> Result<(), SandboxError> {
        self.idle()?.close()
    }
}

/// Shows a sandbox's image to `work`.
fn with_image<R>(sandbox: &Sandbox, work: impl FnOnce(&ImageView<'_>) -> R) -> R {
    let Sandbox { world, runtime, .. } = sandbox;
    let image = Image::new(&world.guests, runtime);
    work(&ImageView {
        identity: &runtime.image_sha256,
        runtime: &runtime.name,
        version: Some(&runtime.version),
        language: runtime.language,
        memory_bytes: runtime.memory_bytes(),
        page: &|number| image.original(number),
        globals: &live::globals(sandbox),
    })
}

fn check_options(options: &SessionOptions) -> Result<(), SandboxError> {
    let SessionOptions { context, tools } = options;
    no_tools(tools.as_deref().unwrap_or_default())?;
    Ok(context.iter().try_for_each(|json| check_json("context", json))?)
}
