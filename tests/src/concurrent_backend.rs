//! A backend that uses version 0.3.0 of the contract: it runs the `cases-concurrent` program in a store of its own.

use std::{fs, sync::OnceLock, time::Duration};

use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, add_to_linker_concurrent};
use wasmtime::{
    Engine, Store,
    component::{Component, InstancePre, Linker},
};

use crate::{
    Backend, Case, StepResult,
    case_line::{LineOptions, case_line, results},
    engine, program_path,
};

/// The program that runs the cases.
const PROGRAM: &str = "cases-concurrent";

/// The backend that runs cases through version 0.3.0 of the contract, each in a new instance.
#[derive(Debug)]
pub struct ConcurrentBackend {
    runtime: String,
    stepped: bool,
}

impl ConcurrentBackend {
    /// Creates the backend for a runtime in the manifest. With `stepped`, every execution is started and awaited,
    /// otherwise only those that require it.
    ///
    /// # Errors
    /// Fails if the program is not built. The error contains the command that builds it.
    pub fn of_runtime(name: &str, stepped: bool) -> Result<Self, String> {
        program_path(PROGRAM)?;
        Ok(Self { runtime: name.to_owned(), stepped })
    }
}

/// Returns the program, which is compiled on the first call.
fn program() -> &'static InstancePre<SandboxCtx> {
    static COMPILED: OnceLock<InstancePre<SandboxCtx>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let bytes = fs::read(program_path(PROGRAM).expect("the program is built")).expect("the program can be read");
        let engine = Engine::default();
        let mut linker = Linker::new(&engine);
        add_to_linker_concurrent(&mut linker).expect("the linker is empty");
        let wait = linker.root().func_wrap_concurrent("wait", |_, (ms,): (u64,)| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            })
        });
        wait.expect("the linker has no such function");
        let component = Component::new(&engine, bytes).expect("the program is a component");
        linker.instantiate_pre(&component).expect("the program can be linked")
    })
}

/// Runs a case in a new store.
async fn run(host: &SandboxHost, line: String) -> wasmtime::Result<String> {
    let mut store = Store::new(program().engine(), host.ctx());
    // Standard input is in hexadecimal digits in a case, so a line can be larger than the input.
    store.set_hostcall_fuel(8 * LIFT_BYTES);
    let instance = program().instantiate_async(&mut store).await?;
    let results = instance.get_typed_func::<(String,), (String,)>(&mut store, "results")?;
    let called = store.run_concurrent(async move |accessor| results.call_concurrent(accessor, (line,)).await);
    Ok(called.await??.0)
}

impl Backend for ConcurrentBackend {
    fn run(&self, case: &Case) -> Vec<StepResult> {
        let options = LineOptions { stepped: self.stepped, ..LineOptions::default() };
        let line = case_line(case, &self.runtime, options).to_string();
        let host = SandboxHost::builder(engine()).policy(case.policy.clone()).build();
        let host = host.expect("a case's policy can be granted");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts");
        let written = runtime.block_on(run(&host, line)).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        results(written.as_bytes()).expect("the program returned results")
    }
}
