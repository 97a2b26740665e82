//! Measures executions that a component requests, also in an asynchronous embedder with a single thread.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use glovebox::{Engine, Policy, RuntimeInfo};
use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, add_to_linker_async};
use glovebox_component_runner::{AppConfig, Application, Applications};
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker},
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::samples::Samples;

/// The component's code, for version 0.2.0 of the contract. `component` replaces the placeholders, which are in capitals.
const MODULE: &str = include_str!("component.wat");

/// The component's world. It declares only the function of WASI clocks that the component calls, at the contract's
/// version.
const WORLD: &str = "
package glovebox:bench;

world bench {
    import glovebox:sandbox/sandbox@0.2.0;
    import wasi:clocks/monotonic-clock@0.2.12;
    export turn: func(count: u32) -> list<u64>;
}

package wasi:clocks@0.2.12 {
    interface monotonic-clock {
        now: func() -> u64;
    }
}
";

/// The version of the contract that a component uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContractVersion {
    /// Version 0.2.0, whose functions block.
    Blocking,
    /// The draft of version 0.3.0, whose functions are asynchronous.
    Asynchronous,
}

impl ContractVersion {
    /// Returns text for version 0.2.0, changed to this version.
    fn changed(self, text: &str) -> String {
        match self {
            Self::Blocking => text.to_owned(),
            Self::Asynchronous => {
                text.replace("glovebox:sandbox/sandbox@0.2.0", "glovebox:sandbox/sandbox@0.3.0").replace(
                    "export turn: func",
                    // Only an asynchronous function can wait for another one.
                    "export turn: async func",
                )
            }
        }
    }
}

/// A component that executes a script repeatedly and times each execution with its own clock.
pub(crate) struct ComponentCase {
    application: Application,
    host: SandboxHost,
}

impl ComponentCase {
    pub(crate) fn new(
        engine: &Engine,
        runtime: &RuntimeInfo,
        source: &str,
        policy: &Policy,
        version: ContractVersion,
    ) -> anyhow::Result<Self> {
        let component = component(&runtime.name, source, version).context("cannot build the benchmark's component")?;
        Ok(Self {
            application: Applications::new(engine)?.load_bytes("benchmark", &component)?,
            host: SandboxHost::builder(engine).policy(policy.clone()).build()?,
        })
    }

    /// Measures `count` consecutive executions after one warm-up execution.
    pub(crate) fn turn(&self, into: &mut Samples, count: usize) -> anyhow::Result<()> {
        let ended = self.application.invoke(&format!("turn({})", count + 1), &self.host, &AppConfig::default())?;
        let Some(list) = ended.value.filter(|_| ended.outcome.is_success()) else {
            bail!("the benchmark's component {}", ended.outcome.describe());
        };
        let times = list.trim_matches(['[', ']']).split(", ").map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        ensure!(times.len() == count + 1, "the benchmark's component returned {} times", times.len());
        times.into_iter().skip(1).for_each(|nanoseconds| into.push(Duration::from_nanos(nanoseconds)));
        Ok(())
    }
}

/// Builds a component that executes a script on a runtime.
pub(crate) fn component(runtime: &str, source: &str, version: ContractVersion) -> anyhow::Result<Vec<u8>> {
    let text = version
        .changed(MODULE)
        .replace("NAME_LEN", &runtime.len().to_string())
        .replace("SOURCE_LEN", &source.len().to_string())
        .replace("NAME", &literal(runtime))
        .replace("SOURCE", &literal(source));
    let mut module = wat::parse_str(text)?;
    let mut resolve = Resolve::default();
    match version {
        ContractVersion::Blocking => {
            resolve.push_str("sandbox.wit", &contract())?;
        }
        ContractVersion::Asynchronous => {
            resolve.push_str("types.wit", include_str!("../../../wit/types.wit"))?;
            resolve.push_str("sandbox.wit", include_str!("../../../wit/0.3/sandbox.wit"))?;
        }
    }
    let package = resolve.push_str("bench.wit", &version.changed(WORLD))?;
    let world = resolve.select_world(&[package], Some("bench"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().validate(true).module(&module)?.encode()
}

/// Returns the interfaces of version 0.2.0 that the component needs, in a single WIT file.
fn contract() -> String {
    let [types, sandbox] = [include_str!("../../../wit/types.wit"), include_str!("../../../wit/sandbox.wit")];
    // Only one of the files may declare the package.
    let (_, sandbox) = sandbox.split_once(';').unwrap_or_default();
    format!("{types}{sandbox}")
}

/// Returns a string literal in WebAssembly text format.
fn literal(text: &str) -> String {
    let bytes: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

/// Like [`ComponentCase`], but with the asynchronous linker for version 0.2.0, in which each execution runs on another
/// thread.
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

#[cfg(test)]
mod tests {
    use super::{ContractVersion, component, literal};

    #[test]
    fn bench_component_accepts_any_name_and_source() {
        for (runtime, source) in [("python-3.12", "print(1)"), ("javascript-0.11", "console.log(\"é\\n\")")] {
            for version in [ContractVersion::Blocking, ContractVersion::Asynchronous] {
                assert!(component(runtime, source, version).unwrap().starts_with(b"\0asm"));
            }
        }
    }

    #[test]
    fn text_is_written_as_escaped_bytes() {
        assert_eq!(literal("a\"\\é"), r#""\61\22\5c\c3\a9""#);
    }
}
