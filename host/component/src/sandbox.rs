//! Interface `sandbox`: the functions that need no session. Interface `tools`: the host's tools, within the granted
//! limits, for components that execute scripts themselves.

use std::{
    io::{self, Write},
    sync::Arc,
};

use glovebox::{
    CancelToken, Files, Limits, Sandbox, ToolOutcome,
    internal::{Budget, DirectCall},
};
use glovebox_core::contract::{MAX_LISTED_FILES, MAX_READ_BYTES, check_json, part, too_many_files};
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    convert::{self, SandboxFailure, refused},
    ctx::Caller,
    quotas::{Meter, QuotaError, QuotaShare, QuotaUse},
    started::{StartRequest, StartedResource},
    wit::{
        sandbox::{Host, HostBlob, HostFiles},
        tools,
        types::{
            CallFailure, Diagnostic, Execution, FileEntry, FileError, InputFile, Policy, ProviderInfo, Request,
            Runtime, SandboxError, Tool, ToolError,
        },
    },
};

/// Returns the maximum fuel of an execution outside sessions. Setting the `context` variable can use as much fuel as
/// the script.
pub(super) fn fuel_of_an_execution(sandbox: &Sandbox, request: &Request) -> u64 {
    let fuel = sandbox.policy().limits.fuel;
    if request.context.is_some() { fuel.saturating_mul(2) } else { fuel }
}

impl Caller {
    /// Returns the sandbox for a request that runs outside sessions. Moves the request's files into the sandbox.
    pub(super) fn sandbox_for_request(
        &self,
        runtime: Runtime,
        request: &mut Request,
        policy: Policy,
    ) -> Result<Sandbox, SandboxFailure> {
        request.context.iter().try_for_each(|json| check_json("context", json))?;
        self.sandbox_with_files(runtime, policy, request.files.take().unwrap_or_default())
    }

    /// Implements `execute`. `cancel` cancels the script.
    pub(super) fn execute(
        &self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        cancel: &CancelToken,
    ) -> Result<Execution, SandboxFailure> {
        let sandbox = self.sandbox_for_request(runtime, &mut request, policy)?;
        Ok(self.run_in(&sandbox, &request, cancel)?.into())
    }

    /// Executes a request in `sandbox`.
    pub(super) fn run_in(
        &self,
        sandbox: &Sandbox,
        request: &Request,
        cancel: &CancelToken,
    ) -> Result<glovebox::Execution, SandboxFailure> {
        let budget = Budget::empty();
        let _reservation = self.meter.execution(fuel_of_an_execution(sandbox, request), &budget)?;
        let request = convert::request(request).session_id(&self.id).cancel(cancel).budget(&budget);
        let mut execution = sandbox.run(request)?;
        // Outside sessions, the ID is only for the host's log and tools.
        execution.session_id = None;
        Ok(execution)
    }

    /// Implements `validate`. `cancel` cancels the parser.
    pub(super) fn validate(
        &self,
        runtime: Runtime,
        request: Request,
        policy: Policy,
        cancel: &CancelToken,
    ) -> Result<Vec<Diagnostic>, SandboxFailure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let budget = Budget::empty();
        let _reservation = self.meter.execution(sandbox.policy().limits.fuel, &budget)?;
        let request = request.for_validation();
        let converted = convert::request(&request).cancel(cancel).budget(&budget);
        Ok(sandbox.validate_request(converted)?.into_iter().map(Diagnostic::from).collect())
    }
}

impl Host for SandboxCtx {
    fn info(&mut self) -> wasmtime::Result<ProviderInfo> {
        Ok(self.caller.host.0.info.clone())
    }

    fn default_policy(&mut self) -> wasmtime::Result<Policy> {
        Ok(self.caller.host.0.default_policy.clone())
    }

    fn execute(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxFailure> {
        self.caller.execute(runtime, request, policy, &self.caller.cancel)
    }

    fn validate(
        &mut self,
        runtime: Runtime,
        request: Request,
        policy: Policy,
    ) -> Result<Vec<Diagnostic>, SandboxFailure> {
        self.caller.validate(runtime, request, policy, &self.caller.cancel)
    }

    fn start(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        let start = StartRequest::new(&sandbox, &request, &tools, false);
        self.start_outside_sessions(sandbox, start)
    }

    fn start_suspendable(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        let start = StartRequest::new(&sandbox, &request, &tools, true);
        self.start_outside_sessions(sandbox, start)
    }

    fn resume_suspended(
        &mut self,
        runtime: Runtime,
        suspended: Resource<Bytes>,
        files: Vec<InputFile>,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        let sandbox = self.caller.sandbox_with_files(runtime, policy, files)?;
        let bytes = self.get(&suspended)?.as_slice();
        let (suspended, suspendable) = self.caller.decode_suspended(bytes)?;
        let start = StartRequest::resume(&sandbox, &suspended, suspendable, &tools)?;
        self.start_outside_sessions(sandbox, start)
    }
}

impl Caller {
    /// Lists the host's tools.
    pub(super) fn list_tools(&self) -> Vec<Tool> {
        let tools = self.host.0.tools.iter().map(|tool| Tool {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            arguments_schema: Some(tool.schema().to_string()),
        });
        tools.collect()
    }

    /// Calls one of the host's tools within `limits`, and blocks the calling thread. No other call may use `cancel`.
    pub(super) fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        limits: &Limits,
        cancel: CancelToken,
    ) -> Result<String, CallFailure> {
        let host = &self.host.0;
        let failed = |kind, message: &str| Err(CallFailure { kind, message: message.to_owned() });
        if let Err(QuotaError(quota)) = self.meter.call() {
            return failed(ToolError::Limit, &quota);
        }
        let call = DirectCall { name, arguments, limits, origin: &self.id, cancel };
        match call.make(&host.toolbox, &host.engine) {
            ToolOutcome::Returned(Some(result)) => Ok(result),
            ToolOutcome::Failed { kind, message: Some(message) } => failed(kind.into(), &message),
            ToolOutcome::Unfinished => failed(ToolError::Failed, "the call was cancelled"),
            // The record of a single call always has room for the result.
            ToolOutcome::Returned(None) | ToolOutcome::Failed { message: None, .. } => {
                failed(ToolError::Failed, "the result of the call was lost")
            }
        }
    }
}

impl tools::Host for SandboxCtx {
    fn list_tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        Ok(self.caller.list_tools())
    }

    fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, CallFailure>> {
        let (caller, limits) = (&self.caller, &self.caller.host.0.grant.0.limits);
        Ok(caller.call_tool(&name, &arguments, limits, caller.cancel.child()))
    }
}

// `resource files`: a snapshot of a workspace. `resource blob`: bytes that may exceed the size limit of lists.

impl SandboxCtx {
    /// Adds a snapshot as a resource. The snapshot's full size is charged, even though the snapshot shares unchanged
    /// contents with its session.
    pub(super) fn put_files(&mut self, files: Files) -> Result<Resource<Snapshot>, SandboxFailure> {
        let share = self.caller.meter.take(QuotaUse::Bytes(files.held_bytes()))?;
        let handle = self.caller.meter.take(QuotaUse::Handle)?;
        self.put(handle, Snapshot::new(files, share))
    }
}

/// Lists the entries that match a pattern. Fails if there are more entries than a list can contain.
pub(super) fn list_files(files: &Files, pattern: &str) -> Result<Vec<FileEntry>, SandboxFailure> {
    let entries = files.list(pattern).map_err(refused(pattern))?;
    if entries.len() > MAX_LISTED_FILES {
        let message = too_many_files(entries.len());
        return Err(SandboxError::from_file(FileError::Refused, pattern, message).into());
    }
    Ok(entries.into_iter().map(FileEntry::from).collect())
}

impl HostFiles for SandboxCtx {
    fn list(&mut self, files: Resource<Snapshot>, pattern: String) -> Result<Vec<FileEntry>, SandboxFailure> {
        list_files(self.get(&files)?.files(), &pattern)
    }

    fn stat(&mut self, files: Resource<Snapshot>, path: String) -> Result<FileEntry, SandboxFailure> {
        Ok(self.get(&files)?.files().stat(&path).map_err(refused(&path))?.into())
    }

    fn read(
        &mut self,
        files: Resource<Snapshot>,
        path: String,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, SandboxFailure> {
        self.get(&files)?.files().read_at(&path, offset, len.min(MAX_READ_BYTES)).map_err(refused(&path))
    }

    fn drop(&mut self, files: Resource<Snapshot>) -> wasmtime::Result<()> {
        self.take(files).map(drop)
    }
}

/// A file snapshot with its share of the byte quota.
#[expect(unreachable_pub, reason = "the bindings re-export it, some of them from a private module")]
#[derive(Debug)]
pub struct Snapshot {
    files: Files,
    _share: QuotaShare,
}

impl Snapshot {
    pub(super) fn new(files: Files, share: QuotaShare) -> Self {
        Self { files, _share: share }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }
}

impl HostBlob for SandboxCtx {
    fn new(&mut self) -> wasmtime::Result<Resource<Bytes>> {
        // A constructor cannot return an error, so an exceeded quota traps.
        let to_trap = |error| SandboxFailure::from(error).into_trap();
        let (handle, bytes) = (
            self.caller.meter.take(QuotaUse::Handle).map_err(to_trap)?,
            Bytes::new(&self.caller.meter).map_err(to_trap)?,
        );
        self.put(handle, bytes).map_err(SandboxFailure::into_trap)
    }

    fn append(&mut self, blob: Resource<Bytes>, bytes: Vec<u8>) -> Result<(), SandboxFailure> {
        Ok(self.get_mut(&blob)?.append(&bytes)?)
    }

    fn size(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<u64> {
        Ok(self.get(&blob)?.as_slice().len() as u64)
    }

    fn read(&mut self, blob: Resource<Bytes>, offset: u64, len: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(part(self.get(&blob)?.as_slice(), offset, len).to_vec())
    }

    fn drop(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<()> {
        self.take(blob).map(drop)
    }
}

/// Maximum spare capacity of a blob, in bytes. Spare capacity makes many small appends cheap.
const MAX_SPARE_BYTES: usize = 1 << 20;

/// A blob's bytes with their share of the byte quota.
#[expect(unreachable_pub, reason = "the bindings re-export it, some of them from a private module")]
#[derive(Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    share: QuotaShare,
}

impl Bytes {
    pub(super) fn new(meter: &Arc<Meter>) -> Result<Self, QuotaError> {
        Ok(Self { bytes: Vec::new(), share: meter.take(QuotaUse::Bytes(0))? })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Wraps bytes, and adjusts the share that was taken for them.
    pub(super) fn with(bytes: Vec<u8>, mut share: QuotaShare) -> Result<Self, QuotaError> {
        share.resize(bytes.capacity() as u64)?;
        Ok(Self { bytes, share })
    }

    /// Returns the bytes and their share of the quota.
    pub(super) fn into_parts(self) -> (Vec<u8>, QuotaShare) {
        (self.bytes, self.share)
    }

    /// Appends bytes. Fails if the bytes would exceed the quota.
    pub(super) fn append(&mut self, more: &[u8]) -> Result<(), QuotaError> {
        let wanted = self.bytes.len().saturating_add(more.len());
        if wanted > self.bytes.capacity() {
            let roomy = wanted.saturating_add(wanted.min(MAX_SPARE_BYTES));
            let capacity = match self.share.resize(roomy as u64) {
                Ok(()) => roomy,
                Err(_) => {
                    self.share.resize(wanted as u64)?;
                    wanted
                }
            };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(|error| io::Error::other(QuotaIoError(error)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An exceeded quota as an I/O error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct QuotaIoError(pub(super) QuotaError);
