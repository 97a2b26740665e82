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

use std::rc::Rc;

use glovebox_wasi::Stream;
use wit_bindgen::StreamReader;

use super::streams;
use crate::{
    Session, Started,
    bindings::{
        SessionOptions, export,
        exports::glovebox::sandbox0_3_0::{
            sandbox::{Event, Guest, GuestStarted, Started as OwnStarted},
            session::{Guest as GuestSessions, GuestSession, Session as OwnSession},
        },
        types::{
            CallFailure, CheckpointInfo, Diagnostic, Display, Execution, FileEntry, FileError, GuestValue, IfExists,
            InputFile, Policy, ProviderInfo, Request, Runtime, SandboxError, SessionInfo, Tool,
        },
    },
    common_exports::{provider, sandbox_exports, session_exports},
    started::not_suspendable,
};

/// The maximum size of a saved session, in bytes.
const MAX_SAVED_BYTES: u64 = 2 << 30;

/// A text for errors: how to wait for the end of an execution.
const WAIT_HINT: &str = "wait for `finish`";

struct ProviderExports;

impl Guest for ProviderExports {
    type Started = StartedHandle;

    sandbox_exports!(async);

    async fn start(
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<OwnStarted, SandboxError> {
        Ok(begun(provider().start(&runtime, request, policy, &tools)?))
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
    session_exports!(async);

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

    async fn start(&self, request: Request) -> Result<OwnStarted, SandboxError> {
        Ok(begun(Session::start(self, request)?))
    }

    async fn start_suspendable(&self, _request: Request) -> Result<OwnStarted, SandboxError> {
        Err(not_suspendable())
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

    async fn hibernate(&self) -> Result<StreamReader<u8>, SandboxError> {
        Ok(streams::bytes(Session::hibernate(self)?.into_bytes()))
    }
}

export!(ProviderExports with_types_in crate::bindings);
