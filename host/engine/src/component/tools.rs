//! Interface `tools`, for components that execute scripts themselves.

use super::{
    SandboxCtx,
    wit::{
        tools::Host,
        types::{CallFailure, Tool, ToolError},
    },
};

impl Host for SandboxCtx {
    fn list_tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        let tools = self.host.0.tools.iter().map(|tool| Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            arguments_schema: Some(tool.schema.to_string()),
        });
        Ok(tools.collect())
    }

    fn call(&mut self, name: String, _arguments: String) -> wasmtime::Result<Result<String, CallFailure>> {
        Ok(Err(CallFailure { kind: ToolError::Unknown, message: name }))
    }
}
