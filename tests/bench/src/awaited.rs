//! Measures executions that a component requests in an asynchronous embedder with a single thread.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use glovebox::{Engine, Policy, RuntimeInfo};
use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, add_to_linker_async};
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker},
};

use crate::{
    component::{ContractVersion, component},
    samples::Samples,
};

/// Like [`ComponentCase`](crate::component::ComponentCase), but with the asynchronous linker for version 0.2.0, in which
/// each execution runs on another thread.
pub(crate) struct AwaitedCase {
    instance: InstancePre<SandboxCtx>,
    host: SandboxHost,
    runtime: tokio::runtime::Runtime,
}

impl AwaitedCase {
    pub(crate) fn new(engine: &Engine, runtime: &RuntimeInfo, source: &str, policy: &Policy) -> anyhow::Result<Self> {
        let bytes = component(&runtime.name, source, ContractVersion::Blocking)
            .context("cannot build the benchmark's component")?;
        Ok(Self {
            instance: instance(&bytes).map_err(|error| anyhow!("cannot link the benchmark's component: {error:#}"))?,
            host: SandboxHost::builder(engine).policy(policy.clone()).build()?,
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
        })
    }

    /// Measures `count` consecutive executions after one warm-up execution.
    pub(crate) fn turn(&self, into: &mut Samples, count: usize) -> anyhow::Result<()> {
        let times = self.runtime.block_on(self.times(u32::try_from(count + 1)?));
        let times = times.map_err(|error| anyhow!("the benchmark's component failed: {error:#}"))?;
        ensure!(times.len() == count + 1, "the benchmark's component returned {} times", times.len());
        times.into_iter().skip(1).for_each(|nanoseconds| into.push(Duration::from_nanos(nanoseconds)));
        Ok(())
    }

    async fn times(&self, count: u32) -> wasmtime::Result<Vec<u64>> {
        let mut store = Store::new(self.instance.engine(), self.host.ctx());
        store.set_hostcall_fuel(LIFT_BYTES);
        let instance = self.instance.instantiate_async(&mut store).await?;
        let turn = instance.get_typed_func::<(u32,), (Vec<u64>,)>(&mut store, "turn")?;
        let (times,) = turn.call_async(&mut store, (count,)).await?;
        Ok(times)
    }
}

/// Compiles and links a component. Its clock counts from now.
fn instance(bytes: &[u8]) -> wasmtime::Result<InstancePre<SandboxCtx>> {
    let engine = wasmtime::Engine::default();
    let mut linker = Linker::new(&engine);
    add_to_linker_async(&mut linker)?;
    let begun = Instant::now();
    linker
        .instance("wasi:clocks/monotonic-clock@0.2.12")?
        .func_wrap("now", move |_, (): ()| Ok((u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),)))?;
    linker.instantiate_pre(&Component::new(&engine, bytes)?)
}
