//! `resource started`: executions that the component steps through.

use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    error::Failure,
    files::Snapshot,
    kept::KeptSession,
    wit::{
        sandbox::{HostStarted, OutputStream, Step, ToolAnswer},
        types::{Policy, Request, Runtime, SandboxError, Tool},
    },
};
use crate::Sandbox;

/// A started execution.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Stepped {}

fn unsupported() -> Failure {
    SandboxError::Unsupported("stepping".into()).into()
}

impl SandboxCtx {
    /// The sandbox of a session whose scripts may call the component's tools.
    pub(super) fn sandbox_for_session(
        &mut self,
        runtime: Runtime,
        policy: Policy,
        tools: Option<Vec<Tool>>,
    ) -> Result<Sandbox, Failure> {
        match tools {
            Some(tools) if !tools.is_empty() => Err(unsupported()),
            _ => self.sandbox_for(runtime, policy),
        }
    }

    /// `start`, in the sandbox that was asked for.
    pub(super) fn start_in_sandbox(
        &mut self,
        _sandbox: Sandbox,
        _request: Request,
        _tools: Vec<Tool>,
    ) -> Result<Resource<Stepped>, Failure> {
        Err(unsupported())
    }

    /// `session.start`.
    pub(super) fn start_in_session(
        &mut self,
        _session: &Resource<KeptSession>,
        _request: Request,
    ) -> Result<Resource<Stepped>, Failure> {
        Err(unsupported())
    }
}

impl HostStarted for SandboxCtx {
    fn continue_(
        &mut self,
        _started: Resource<Stepped>,
        _answers: Vec<ToolAnswer>,
        _wait_ms: Option<u64>,
    ) -> Result<Step, Failure> {
        Err(unsupported())
    }

    fn read_output(
        &mut self,
        _started: Resource<Stepped>,
        _stream: OutputStream,
        _offset: u64,
        _len: u64,
    ) -> wasmtime::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn files(&mut self, _started: Resource<Stepped>) -> Result<Resource<Snapshot>, Failure> {
        Err(unsupported())
    }

    fn cancel(&mut self, _started: Resource<Stepped>) -> wasmtime::Result<()> {
        Ok(())
    }

    fn drop(&mut self, started: Resource<Stepped>) -> wasmtime::Result<()> {
        self.take(started).map(drop)
    }
}
