//! Interface `tools` for components that execute scripts themselves: the host's tools, within the granted limits.

use super::{
    SandboxCtx,
    quotas::OverQuota,
    wit::{
        tools::Host,
        types::{CallFailure, Tool, ToolError},
    },
};
use crate::{ToolOutcome, tools::DirectCall};

impl Host for SandboxCtx {
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
