//! What the component exports: the interface on the one [`Provider`] of this instance.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "the last line is a generated macro that exports functions by name and raw signature"
)]

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
};

use crate::{
    Blob, Files, Provider, Started, World,
    bindings::{
        export,
        exports::glovebox::sandbox::sandbox::{
            Blob as OwnBlob, BlobBorrow, Files as OwnFiles, Guest, GuestBlob, GuestFiles, GuestSession, GuestStarted,
            OutputStream, Session as OwnSession, SessionOptions, Started as OwnStarted, Step, ToolAnswer,
        },
        types::{
            CheckpointInfo, Diagnostic, Execution, FileEntry, GuestValue, IfExists, Policy, ProviderInfo, Request,
            Runtime, SandboxError, SessionInfo, Tool,
        },
    },
    intrinsics::Woven,
};

thread_local! {
    static PROVIDER: OnceCell<Rc<Provider>> = const { OnceCell::new() };
}

fn provider() -> Rc<Provider> {
    PROVIDER.with(|provider| Rc::clone(provider.get_or_init(|| Rc::new(Provider::new(world())))))
}

fn world() -> World {
    World { guests: Rc::new(Woven), clocks: clocks(), tools: tools() }
}

#[cfg(feature = "tools")]
fn tools() -> Option<Rc<dyn crate::ToolHost>> {
    Some(Rc::new(crate::host_tools::HostTools))
}

#[cfg(not(feature = "tools"))]
fn tools() -> Option<Rc<dyn crate::ToolHost>> {
    None
}

#[cfg(feature = "clock")]
fn clocks() -> Option<Rc<dyn crate::Clocks>> {
    Some(Rc::new(crate::host_clocks::HostClocks))
}

#[cfg(not(feature = "clock"))]
fn clocks() -> Option<Rc<dyn crate::Clocks>> {
    None
}

struct Exported;

impl Guest for Exported {
    type Started = RefCell<Started>;
    type Session = NoSession;
    type Files = Files;
    type Blob = RefCell<Blob>;

    fn info() -> ProviderInfo {
        provider().info()
    }

    fn default_policy() -> Policy {
        provider().default_policy()
    }

    fn execute(runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxError> {
        provider().execute(&runtime, request, policy)
    }

    fn validate(runtime: Runtime, request: Request, policy: Policy) -> Result<Vec<Diagnostic>, SandboxError> {
        provider().validate(&runtime, request, policy)
    }

    fn start(runtime: Runtime, request: Request, policy: Policy, tools: Vec<Tool>) -> Result<OwnStarted, SandboxError> {
        Ok(OwnStarted::new(RefCell::new(provider().start(&runtime, request, policy, &tools)?)))
    }
}

impl GuestStarted for RefCell<Started> {
    fn continue_(&self, answers: Vec<ToolAnswer>, _wait_ms: Option<u64>) -> Result<Step, SandboxError> {
        self.borrow_mut().go_on(&answers)
    }

    fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.borrow().read_output(stream, offset, len)
    }

    fn files(&self) -> Result<OwnFiles, SandboxError> {
        Ok(OwnFiles::new(self.borrow().files()?))
    }

    fn cancel(&self) {
        self.borrow_mut().cancel();
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
        Err(SandboxError::QuotaExceeded("the provider's memory has no room for these bytes".into()))
    }

    fn size(&self) -> u64 {
        self.borrow().as_slice().len() as u64
    }

    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        self.borrow().read(offset, len)
    }
}

export!(Exported with_types_in crate::bindings);

struct NoSession;
fn none<T>() -> Result<T, SandboxError> {
    Err(SandboxError::Unsupported("sessions".into()))
}
impl GuestSession for NoSession {
    fn open(_: Runtime, _: Policy, _: SessionOptions) -> Result<OwnSession, SandboxError> {
        none()
    }
    fn resume(_: Runtime, _: BlobBorrow<'_>, _: Policy, _: SessionOptions) -> Result<OwnSession, SandboxError> {
        none()
    }
    fn id(&self) -> String {
        String::new()
    }
    fn info(&self) -> SessionInfo {
        SessionInfo {
            id: String::new(),
            executions: 0,
            memory_bytes: 0,
            private_bytes: 0,
            held_bytes: 0,
            checkpoints: 0,
            went_back: 0,
            ended: None,
        }
    }
    fn execute(&self, _: Request) -> Result<Execution, SandboxError> {
        none()
    }
    fn start(&self, _: Request) -> Result<OwnStarted, SandboxError> {
        none()
    }
    fn get_variable(&self, _: String) -> Result<Option<GuestValue>, SandboxError> {
        none()
    }
    fn set_variable(&self, _: String, _: String) -> Result<(), SandboxError> {
        none()
    }
    fn files(&self) -> Result<OwnFiles, SandboxError> {
        none()
    }
    fn write_file(&self, _: String, _: Vec<u8>, _: IfExists) -> Result<(), SandboxError> {
        none()
    }
    fn write_file_from(&self, _: String, _: BlobBorrow<'_>, _: IfExists) -> Result<(), SandboxError> {
        none()
    }
    fn rename_file(&self, _: String, _: String, _: IfExists) -> Result<(), SandboxError> {
        none()
    }
    fn delete_file(&self, _: String, _: bool) -> Result<(), SandboxError> {
        none()
    }
    fn fork(&self) -> Result<OwnSession, SandboxError> {
        none()
    }
    fn checkpoint(&self) -> Result<u64, SandboxError> {
        none()
    }
    fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, SandboxError> {
        none()
    }
    fn undo(&self) -> Result<u64, SandboxError> {
        none()
    }
    fn undo_to(&self, _: u64) -> Result<(), SandboxError> {
        none()
    }
    fn hibernate(&self) -> Result<OwnBlob, SandboxError> {
        none()
    }
    fn close(&self) -> Result<(), SandboxError> {
        none()
    }
}
