//! `resource started`: executions that the component steps through.

use std::{sync::Arc, time::Duration};

use glovebox_core::contract::MAX_READ_BYTES;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    bindings::Failure,
    caller_tools, convert,
    quotas::{Of, OverQuota, Share},
    sandbox::fuel_of_an_execution,
    session::fuel_of_a_call,
    session_resource::SessionResource,
    snapshot::Snapshot,
    stepped::{Left, LeftFiles, Stepped},
    wit::{
        sandbox::{HostStarted, OutputStream, Step, ToolAnswer, ToolRequest},
        types::{Request, SandboxError, Tool},
    },
};
use crate::{
    AdvanceError, Execution, Sandbox, ToolError,
    exec::{budget::Budget, stepping},
};

impl SandboxCtx {
    /// Adds the component's tools to a sandbox. Count the call first: compiling their schemas takes time.
    pub(super) fn with_tools(&self, sandbox: Sandbox, tools: &[Tool]) -> Result<Sandbox, Failure> {
        if tools.is_empty() {
            return Ok(sandbox);
        }
        let (tools, bytes) = caller_tools::checked(tools)?;
        let share = self.meter.take(Of::Bytes(bytes))?;
        let toolbox = sandbox.0.toolbox.with(&tools);
        let toolbox = toolbox.map_err(|error| SandboxError::InvalidArgument(format!("`tools`: {error}")))?;
        Ok(sandbox.with_toolbox(toolbox.keeping(share)))
    }

    /// Takes a share for the maximum output of an execution.
    fn output_share(&self, sandbox: &Sandbox) -> Result<Share, OverQuota> {
        let limits = &sandbox.policy().limits;
        let bytes = [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes];
        self.meter.take(Of::Bytes(bytes.into_iter().fold(0, u64::saturating_add)))
    }

    /// Implements `start` in the requested sandbox.
    pub(super) fn start_in_sandbox(
        &mut self,
        sandbox: Sandbox,
        request: Request,
        tools: Vec<Tool>,
    ) -> Result<Resource<Stepped>, Failure> {
        let (handle, started) = (self.meter.take(Of::Handle)?, self.meter.take(Of::Started)?);
        let left = Left::new(self.output_share(&sandbox)?);
        let (meter, there) = (Arc::clone(&self.meter), Arc::clone(&left));
        let budget = Budget::empty();
        let bill = self.meter.execution(fuel_of_an_execution(&sandbox, &request), &budget)?;
        let sandbox = self.with_tools(sandbox, &tools)?;
        let asked = convert::request(&request).session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let started = sandbox.start_with(asked, move |execution| {
            let _until_here = (started, bill);
            execution.session_id = None;
            let files = execution.take_files();
            *there.files() = match meter.take(Of::Bytes(files.held_bytes())) {
                Ok(share) => LeftFiles::Held { files, _share: share },
                Err(error) => LeftFiles::TooLarge(error),
            };
            there.finish(execution);
        })?;
        self.put(handle, Stepped { started, left, stepping: None, is_in_session: false, is_done: false })
    }

    /// Implements `session.start`.
    pub(super) fn start_in_session(
        &mut self,
        session: &Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<Stepped>, Failure> {
        let resource = self.get(session)?.clone();
        let (stepping, running) = resource.step()?;
        let (handle, started) = (self.meter.take(Of::Handle)?, self.meter.take(Of::Started)?);
        let sandbox = resource.session().sandbox();
        let left = Left::new(self.output_share(sandbox)?);
        let there = Arc::clone(&left);
        let keeper = resource.keeper().clone();
        let bill = self.meter.execution(fuel_of_a_call(sandbox), &keeper.budget)?;
        let asked = convert::request(&request).cancel(&keeper.cancel).budget(&keeper.budget);
        let session = resource.session().clone();
        let started = session.start_with(asked, move |execution| {
            // The handle may be gone, and this may be the last reference to the session.
            let _until_here = (started, bill, running, resource);
            drop(execution.take_files());
            there.finish(execution);
        })?;
        self.put(handle, Stepped { started, left, stepping: Some(stepping), is_in_session: true, is_done: false })
    }
}

impl HostStarted for SandboxCtx {
    fn continue_(
        &mut self,
        started: Resource<Stepped>,
        answers: Vec<ToolAnswer>,
        wait_ms: Option<u64>,
    ) -> Result<Step, Failure> {
        let stepped = self.get_mut(&started)?;
        let answers = answers.into_iter().map(stepping::ToolAnswer::from).collect();
        let step = stepped.started.advance(answers, wait_ms.map(Duration::from_millis));
        // A rejected answer does not end the execution.
        let end = matches!(step, Ok(stepping::Step::Done(_)) | Err(AdvanceError::Execute(_) | AdvanceError::Panicked));
        if end {
            stepped.is_done = true;
            stepped.stepping = None;
            if let Some(error) = stepped.left.over_quota.get() {
                return Err(error.clone().into());
            }
        }
        Ok(match step? {
            stepping::Step::Done(execution) => Step::Done(Execution::clone(&execution).into()),
            stepping::Step::NeedsTools(requests) => {
                Step::NeedsTools(requests.into_iter().map(ToolRequest::from).collect())
            }
            stepping::Step::Running => Step::Running,
        })
    }

    fn read_output(
        &mut self,
        started: Resource<Stepped>,
        stream: OutputStream,
        offset: u64,
        len: u64,
    ) -> wasmtime::Result<Vec<u8>> {
        Ok(self.get(&started)?.started.read_output(stream.into(), offset, len.min(MAX_READ_BYTES)))
    }

    fn files(&mut self, started: Resource<Stepped>) -> Result<Resource<Snapshot>, Failure> {
        let stepped = self.get(&started)?;
        if stepped.is_in_session {
            let text = "an execution in a session leaves its files there: `session.files` gives them";
            return Err(SandboxError::Unsupported(text.into()).into());
        }
        if !stepped.is_done {
            let text = "`continue` has not said `done`: the execution may still change its files";
            return Err(SandboxError::SessionBusy(text.into()).into());
        }
        let files = match &*stepped.left.files() {
            LeftFiles::Held { files, .. } => files.clone(),
            LeftFiles::TooLarge(error) => return Err(error.clone().into()),
            LeftFiles::None => {
                let text = "the execution could not be carried out, and left no files";
                return Err(SandboxError::Unavailable(text.into()).into());
            }
        };
        self.put_files(files)
    }

    fn cancel(&mut self, started: Resource<Stepped>) -> wasmtime::Result<()> {
        self.get(&started)?.started.cancel();
        Ok(())
    }

    fn drop(&mut self, started: Resource<Stepped>) -> wasmtime::Result<()> {
        self.take(started).map(drop)
    }
}

impl From<ToolAnswer> for stepping::ToolAnswer {
    fn from(ToolAnswer { id, answer }: ToolAnswer) -> Self {
        Self { id, answer: answer.map_err(ToolError::from) }
    }
}

impl From<stepping::ToolRequest> for ToolRequest {
    fn from(stepping::ToolRequest { id, name, arguments }: stepping::ToolRequest) -> Self {
        Self { id, name, arguments }
    }
}
