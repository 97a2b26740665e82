//! The component's exports: the interface, implemented by the [`Provider`] of this instance.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "the last line is a generated macro that exports functions by name and raw signature"
)]

use std::cell::RefCell;

use crate::{
    Blob, Files, Session, Started,
    bindings::{
        SessionOptions, export,
        exports::glovebox::sandbox::sandbox::{
            Blob as OwnBlob, BlobBorrow, Files as OwnFiles, Guest, GuestBlob, GuestFiles, GuestSession, GuestStarted,
            OutputStream, Session as OwnSession, Started as OwnStarted, Step, ToolAnswer,
        },
        types::{
            CheckpointInfo, Diagnostic, Execution, FileEntry, GuestValue, IfExists, InputFile, Policy, ProviderInfo,
            Request, Runtime, SandboxError, SessionInfo, Tool,
        },
    },
    common_exports::{provider, sandbox_exports, session_exports},
    started::not_suspendable,
};

struct ProviderExports;

impl Guest for ProviderExports {
    type Started = Started;
    type Session = Session;
    type Files = Files;
    type Blob = RefCell<Blob>;

    sandbox_exports!();

    fn start(runtime: Runtime, request: Request, policy: Policy, tools: Vec<Tool>) -> Result<OwnStarted, SandboxError> {
        Ok(OwnStarted::new(provider().start(&runtime, request, policy, &tools)?))
    }

    fn resume_suspended(
        _runtime: Runtime,
        _suspended: BlobBorrow<'_>,
        _files: Vec<InputFile>,
        _policy: Policy,
        _tools: Vec<Tool>,
    ) -> Result<OwnStarted, SandboxError> {
        Err(not_suspendable())
    }
}

impl GuestStarted for Started {
    fn continue_(&self, answers: Vec<ToolAnswer>, _wait_ms: Option<u64>) -> Result<Step, SandboxError> {
        self.advance(&answers)
    }

    fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.read_output(stream, offset, len)
    }

    fn files(&self) -> Result<OwnFiles, SandboxError> {
        Ok(OwnFiles::new(self.files("call `continue` until it returns `done`")?))
    }

    fn suspend(&self) -> Result<OwnBlob, SandboxError> {
        Err(not_suspendable())
    }

    fn cancel(&self) {
        self.cancel();
    }
}

impl GuestFiles for Files {
    fn list(&self, pattern: String) -> Result<Vec<FileEntry>, SandboxError> {
        self.list(&pattern)
    }

    fn stat(&self, path: String) -> Result<FileEntry, SandboxError> {
        self.stat(&path)
    }

    fn read(&self, path: String, offset: u64, len: u64) -> Result<Vec<u8>, SandboxError> {
        self.read(&path, offset, len)
    }
}

impl GuestBlob for RefCell<Blob> {
    fn new() -> Self {
        Self::default()
    }

    fn append(&self, bytes: Vec<u8>) -> Result<(), SandboxError> {
        if self.borrow_mut().append(&bytes) {
            return Ok(());
        }
        Err(SandboxError::QuotaExceeded("the provider does not have enough memory for these bytes".into()))
    }

    fn size(&self) -> u64 {
        self.borrow().as_slice().len() as u64
    }

    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        self.borrow().read(offset, len)
    }
}

impl GuestSession for Session {
    session_exports!();

    fn resume(
        runtime: Runtime,
        state: BlobBorrow<'_>,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<OwnSession, SandboxError> {
        let state = state.get::<RefCell<Blob>>().borrow();
        Ok(OwnSession::new(provider().resume(&runtime, state.as_slice(), policy, &options)?))
    }

    fn start(&self, request: Request) -> Result<OwnStarted, SandboxError> {
        Ok(OwnStarted::new(self.start(request)?))
    }

    fn files(&self) -> Result<OwnFiles, SandboxError> {
        Ok(OwnFiles::new(self.files()?))
    }

    fn write_file(&self, path: String, bytes: Vec<u8>, if_exists: IfExists) -> Result<(), SandboxError> {
        self.write_file(&path, &bytes, if_exists)
    }

    fn write_file_from(&self, path: String, contents: BlobBorrow<'_>, if_exists: IfExists) -> Result<(), SandboxError> {
        self.write_file(&path, contents.get::<RefCell<Blob>>().borrow().as_slice(), if_exists)
    }

    fn hibernate(&self) -> Result<OwnBlob, SandboxError> {
        Ok(OwnBlob::new(RefCell::new(self.hibernate()?)))
    }
}

export!(ProviderExports with_types_in crate::bindings);
