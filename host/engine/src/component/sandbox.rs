//! Interface `sandbox`: the functions without a session.

use glovebox_core::contract::check_json;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    bindings::Failure,
    convert,
    stepped::Stepped,
    wit::{
        sandbox::Host,
        types::{Diagnostic, Execution, Policy, ProviderInfo, Request, Runtime, Tool},
    },
};
use crate::{Sandbox, exec::budget::Budget};

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

    fn execute(&mut self, runtime: Runtime, mut request: Request, policy: Policy) -> Result<Execution, Failure> {
        request.context.iter().try_for_each(|json| check_json("context", json))?;
        let sandbox = self.sandbox_with_files(runtime, policy, request.files.take().unwrap_or_default())?;
        let budget = Budget::empty();
        let _bill = self.meter.execution(fuel_of_an_execution(&sandbox, &request), &budget)?;
        let request = convert::request(&request).session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let execution = sandbox.run(request)?;
        // Outside a session the id is only for the host's log.
        Ok(Execution { session_id: None, ..execution.into() })
    }

    fn validate(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Vec<Diagnostic>, Failure> {
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
    ) -> Result<Resource<Stepped>, Failure> {
        request.context.iter().try_for_each(|json| check_json("context", json))?;
        let sandbox = self.sandbox_with_files(runtime, policy, request.files.take().unwrap_or_default())?;
        self.start_in_sandbox(sandbox, request, tools)
    }
}
