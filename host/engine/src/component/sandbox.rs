//! Interface `sandbox`: the functions without a session. Interface `tools`: the host's tools, within the granted limits,
//! for components that execute scripts themselves.

use glovebox_core::contract::check_json;
use wasmtime::component::Resource;

use super::{
    SandboxCtx, convert,
    error::SandboxFailure,
    quotas::OverQuota,
    started::Stepped,
    wit::{
        sandbox::Host,
        tools,
        types::{CallFailure, Diagnostic, Execution, Policy, ProviderInfo, Request, Runtime, Tool, ToolError},
    },
};
use crate::{Sandbox, ToolOutcome, exec::platform::Budget, tools::DirectCall};

/// Returns the maximum fuel of an execution outside a session. Setting the variable `context` may use as much as the
/// script.
pub(super) fn fuel_of_an_execution(sandbox: &Sandbox, request: &Request) -> u64 {
    let fuel = sandbox.policy().limits.fuel;
    if request.context.is_some() { fuel.saturating_mul(2) } else { fuel }
}

impl Host for SandboxCtx {
    fn info(&mut self) -> wasmtime::Result<ProviderInfo> {
        Ok(self.host.0.info.clone())
    }

    fn default_policy(&mut self) -> wasmtime::Result<Policy> {
        Ok(self.host.0.default_policy.clone())
    }

    fn execute(&mut self, runtime: Runtime, mut request: Request, policy: Policy) -> Result<Execution, SandboxFailure> {
        request.context.iter().try_for_each(|json| check_json("context", json))?;
        let sandbox = self.sandbox_with_files(runtime, policy, request.files.take().unwrap_or_default())?;
        let budget = Budget::empty();
        let _bill = self.meter.execution(fuel_of_an_execution(&sandbox, &request), &budget)?;
        let request = convert::request(&request).session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let execution = sandbox.run(request)?;
        // Outside a session the id is only for the host's log.
        Ok(Execution { session_id: None, ..execution.into() })
    }

    fn validate(
        &mut self,
        runtime: Runtime,
        request: Request,
        policy: Policy,
    ) -> Result<Vec<Diagnostic>, SandboxFailure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let budget = Budget::empty();
        let _bill = self.meter.execution(sandbox.policy().limits.fuel, &budget)?;
        let request = request.for_validation();
        let converted = convert::request(&request).cancel(&self.cancel).budget(&budget);
        Ok(sandbox.validate_request(converted)?.into_iter().map(Diagnostic::from).collect())
    }

    fn start(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<Stepped>, SandboxFailure> {
        request.context.iter().try_for_each(|json| check_json("context", json))?;
        let sandbox = self.sandbox_with_files(runtime, policy, request.files.take().unwrap_or_default())?;
        self.start_in_sandbox(sandbox, request, tools)
    }
}

impl tools::Host for SandboxCtx {
    fn list_tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        let tools = self.host.0.tools.iter().map(|tool| Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            arguments_schema: Some(tool.schema.to_string()),
        });
        Ok(tools.collect())
    }

    fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, CallFailure>> {
        let host = &self.host.0;
        let failed = |kind, message: &str| Ok(Err(CallFailure { kind, message: message.to_owned() }));
        if let Err(OverQuota(quota)) = self.meter.call() {
            return failed(ToolError::Limit, &quota);
        }
        let call = DirectCall {
            name: &name,
            arguments: &arguments,
            limits: &host.grant.0.limits,
            origin: &self.id,
            cancel: self.cancel.child(),
        };
        match call.make(&host.toolbox, &host.engine.0.tool_threads) {
            ToolOutcome::Returned(Some(result)) => Ok(Ok(result)),
            ToolOutcome::Failed { kind, message: Some(message) } => failed(kind.into(), &message),
            ToolOutcome::Unfinished => failed(ToolError::Failed, "the call was cancelled"),
            // The record of a single call is never full.
            ToolOutcome::Returned(None) | ToolOutcome::Failed { message: None, .. } => {
                failed(ToolError::Failed, "the call's record was lost")
            }
        }
    }
}
