//! The component's exports: the interfaces, implemented by the [`Provider`] of this instance.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "the last line is a generated macro that exports functions by name and raw signature"
)]

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use glovebox_wasi::Stream;
use wit_bindgen::StreamReader;

use super::{imports, streams};
use crate::{
    Provider, Session, Started, World,
    bindings::{
        export,
        exports::glovebox::sandbox0_3_0::{
            sandbox::{Event, Guest, GuestStarted, Started as OwnStarted},
            session::{Guest as GuestSessions, GuestSession, Session as OwnSession, SessionOptions},
        },
        types::{
            CallFailure, CheckpointInfo, Diagnostic, Display, Execution, FileEntry, FileError, GuestValue, IfExists,
            InputFile, Policy, ProviderInfo, Request, Runtime, SandboxError, SessionInfo, Tool,
        },
    },
    intrinsics::WovenModule,
    started::not_suspendable,
};

/// The maximum size of a saved session, in bytes.
const MAX_SAVED_BYTES: u64 = 2 << 30;

/// A text for errors: how to wait for the end of an execution.
const WAIT_HINT: &str = "wait for `finish`";

thread_local! {
    static PROVIDER: OnceCell<Rc<Provider>> = const { OnceCell::new() };
}

fn provider() -> Rc<Provider> {
    PROVIDER.with(|provider| Rc::clone(provider.get_or_init(|| Rc::new(Provider::new(world())))))
}

fn world() -> World {
    World {
        guests: Rc::new(WovenModule),
        libraries: Arc::new(WovenModule),
        clocks: clocks(),
        tools: tools(),
        pause: Some(imports::pause),
    }
}

#[cfg(feature = "tools")]
fn tools() -> Option<Rc<dyn crate::ToolHost>> {
    Some(Rc::new(imports::HostTools))
}

#[cfg(not(feature = "tools"))]
fn tools() -> Option<Rc<dyn crate::ToolHost>> {
    None
}

#[cfg(feature = "clock")]
fn clocks() -> Option<Rc<dyn crate::Clocks>> {
    Some(Rc::new(imports::HostClocks))
}

#[cfg(not(feature = "clock"))]
fn clocks() -> Option<Rc<dyn crate::Clocks>> {
    None
}

struct ProviderExports;

impl Guest for ProviderExports {
    type Started = StartedHandle;

    fn info() -> ProviderInfo {
        provider().info()
    }

    fn default_policy() -> Policy {
        provider().default_policy()
    }

    async fn execute(runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxError> {
        provider().execute(&runtime, request, policy)
    }

    async fn validate(runtime: Runtime, request: Request, policy: Policy) -> Result<Vec<Diagnostic>, SandboxError> {
        provider().validate(&runtime, request, policy)
    }

    async fn start(
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<OwnStarted, SandboxError> {
        Ok(begun(provider().start(&runtime, request, policy, &tools)?))
    }

    async fn start_suspendable(
        _runtime: Runtime,
        _request: Request,
        _policy: Policy,
        _tools: Vec<Tool>,
    ) -> Result<OwnStarted, SandboxError> {
        Err(not_suspendable())
    }

    async fn resume_suspended(
        _runtime: Runtime,
        _suspended: Vec<u8>,
        _files: Vec<InputFile>,
        _policy: Policy,
        _tools: Vec<Tool>,
    ) -> Result<OwnStarted, SandboxError> {
        Err(not_suspendable())
    }
}

/// The caller's handle to a started execution. Dropping it cancels the execution.
struct StartedHandle(Rc<Started>);

impl Drop for StartedHandle {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Begins an execution in the calling task, after the task has returned the handle. The task ends when the execution has
/// ended and all its streams and the handle are dropped.
fn begun(started: Started) -> OwnStarted {
    let started = Rc::new(started.observed());
    let handle = OwnStarted::new(StartedHandle(Rc::clone(&started)));
    wit_bindgen::spawn_local(async move {
        wit_bindgen::yield_async().await;
        started.run();
        started.live().serve_all().await;
    });
    handle
}

impl GuestStarted for StartedHandle {
    fn stdout(&self) -> Result<StreamReader<u8>, SandboxError> {
        streams::output(self.0.live(), Stream::Stdout)
    }

    fn stderr(&self) -> Result<StreamReader<u8>, SandboxError> {
        streams::output(self.0.live(), Stream::Stderr)
    }

    fn events(&self) -> Result<StreamReader<Event>, SandboxError> {
        streams::events(self.0.live())
    }

    fn display(&self, index: u32) -> Result<Display, SandboxError> {
        self.0.live().display(index)
    }

    fn answer(&self, id: u64, answer: Result<String, CallFailure>) -> Result<(), SandboxError> {
        self.0.check_answer("answer", id, &answer)
    }

    async fn finish(&self) -> Result<Execution, SandboxError> {
        let started = Rc::clone(&self.0);
        started.live().changed(|| started.result()).await
    }

    async fn read_file(&self, path: String) -> Result<StreamReader<u8>, SandboxError> {
        streams::file(self.0.files(WAIT_HINT)?, path)
    }

    async fn list_files(&self, pattern: String) -> Result<Vec<FileEntry>, SandboxError> {
        self.0.files(WAIT_HINT)?.list(&pattern)
    }

    async fn suspend(&self) -> Result<Vec<u8>, SandboxError> {
        Err(not_suspendable())
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}

impl GuestSessions for ProviderExports {
    type Session = Session;
}

impl GuestSession for Session {
    async fn open(runtime: Runtime, policy: Policy, options: SessionOptions) -> Result<OwnSession, SandboxError> {
        Ok(OwnSession::new(provider().open(&runtime, policy, &options)?))
    }

    async fn resume(
        runtime: Runtime,
        state: StreamReader<u8>,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<OwnSession, SandboxError> {
        let too_large = || SandboxError::NotResumable("the saved session is too large for this provider".into());
        let state = streams::read_all(state, MAX_SAVED_BYTES, too_large).await?;
        Ok(OwnSession::new(provider().resume(&runtime, state.as_slice(), policy, &options)?))
    }

    async fn resume_suspended(
        _runtime: Runtime,
        _suspended: StreamReader<u8>,
        _policy: Policy,
        _tools: Vec<Tool>,
    ) -> Result<(OwnSession, OwnStarted), SandboxError> {
        Err(not_suspendable())
    }

    fn id(&self) -> String {
        self.id()
    }

    fn info(&self) -> SessionInfo {
        self.info()
    }

    async fn execute(&self, request: Request) -> Result<Execution, SandboxError> {
        Ok(Session::execute(self, request)?.to_wit())
    }

    async fn start(&self, request: Request) -> Result<OwnStarted, SandboxError> {
        Ok(begun(Session::start(self, request)?))
    }

    async fn start_suspendable(&self, _request: Request) -> Result<OwnStarted, SandboxError> {
        Err(not_suspendable())
    }

    async fn get_variable(&self, name: String) -> Result<Option<GuestValue>, SandboxError> {
        Session::get_variable(self, &name)
    }

    async fn set_variable(&self, name: String, json: String) -> Result<(), SandboxError> {
        Session::set_variable(self, &name, &json)
    }

    async fn read_file(&self, path: String) -> Result<StreamReader<u8>, SandboxError> {
        streams::file(self.files()?, path)
    }

    async fn write_file(
        &self,
        path: String,
        contents: StreamReader<u8>,
        if_exists: IfExists,
    ) -> Result<(), SandboxError> {
        let session = self.clone();
        let too_large = || {
            let message = "the contents exceed `limits.workspace-bytes` or `limits.memory-bytes`";
            SandboxError::from_file(FileError::NoSpace, &path, message.to_owned())
        };
        let contents = streams::read_all(contents, session.max_file_bytes()?, too_large).await?;
        Session::write_file(&session, &path, contents.as_slice(), if_exists)
    }

    async fn list_files(&self, pattern: String) -> Result<Vec<FileEntry>, SandboxError> {
        self.files()?.list(&pattern)
    }

    async fn rename_file(&self, from: String, to: String, if_exists: IfExists) -> Result<(), SandboxError> {
        Session::rename_file(self, &from, &to, if_exists)
    }

    async fn delete_file(&self, path: String, recursive: bool) -> Result<(), SandboxError> {
        Session::delete_file(self, &path, recursive)
    }

    async fn fork(&self) -> Result<OwnSession, SandboxError> {
        Ok(OwnSession::new(Session::fork(self)?))
    }

    async fn checkpoint(&self) -> Result<u64, SandboxError> {
        Session::checkpoint(self)
    }

    async fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, SandboxError> {
        Session::checkpoints(self)
    }

    async fn undo(&self) -> Result<u64, SandboxError> {
        Session::undo(self)
    }

    async fn undo_to(&self, id: u64) -> Result<(), SandboxError> {
        Session::undo_to(self, id)
    }

    async fn hibernate(&self) -> Result<StreamReader<u8>, SandboxError> {
        Ok(streams::bytes(Session::hibernate(self)?.into_bytes()))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        Session::close(self)
    }
}

export!(ProviderExports with_types_in crate::bindings);
