//! Interface `sandbox`: what needs no session.

use wasmtime::component::Resource;

use super::{
    SandboxCtx, convert,
    error::Failure,
    started::Stepped,
    wit::{
        sandbox::Host,
        types::{Diagnostic, Execution, Policy, ProviderInfo, Request, Runtime, Tool},
    },
};
use crate::budget::Budget;

impl Host for SandboxCtx {
    fn info(&mut self) -> wasmtime::Result<ProviderInfo> {
        Ok(self.host.0.info.clone())
    }

    fn default_policy(&mut self) -> wasmtime::Result<Policy> {
        Ok(self.host.0.default_policy.clone())
    }

    fn execute(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, Failure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let budget = Budget::empty();
        let _bill = self.meter.execution(sandbox.policy().limits.fuel, &budget)?;
        let request = convert::request(&request).session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let execution = sandbox.run(request)?;
        // The id is not one of a session's: it is for the host's log.
        Ok(Execution { session_id: None, ..execution.into() })
    }

    fn validate(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Vec<Diagnostic>, Failure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        let budget = Budget::empty();
        let _bill = self.meter.execution(sandbox.policy().limits.fuel, &budget)?;
        let request = Request { stdin: None, deadline_ms: None, ..request };
        let asked = convert::request(&request).cancel(&self.cancel).budget(&budget);
        Ok(sandbox.validate_request(asked)?.into_iter().map(Diagnostic::from).collect())
    }

    fn start(
        &mut self,
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<Stepped>, Failure> {
        let sandbox = self.sandbox_for(runtime, policy)?;
        self.start_in_sandbox(sandbox, request, tools)
    }
}
