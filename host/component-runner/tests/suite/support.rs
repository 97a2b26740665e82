//! Helpers shared by the test files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use glovebox::{Engine, EngineConfig, Sandbox};
use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, AppOutcome, AppReport, Application, Applications};
use wit_parser::{Resolve, WorldId};

/// An engine with its own cache. Tests that execute scripts use [`prepared`] instead.
pub(crate) struct World {
    pub(crate) applications: Applications,
    pub(crate) host: SandboxHost,
    cache: tempfile::TempDir,
}

impl World {
    pub(crate) fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// Returns the total size of the compiled components in the cache, in bytes.
    pub(crate) fn compiled_bytes(&self) -> u64 {
        let mut directories = vec![self.cache.path().join("components")];
        let mut bytes = 0;
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    directories.push(entry.path());
                }
                bytes += metadata.len();
            }
        }
        bytes
    }
}

pub(crate) fn world() -> World {
    let cache = tempfile::tempdir().unwrap();
    let mut config = EngineConfig::default();
    (config.cache_dir, config.pool) = (Some(cache.path().into()), None);
    let engine = Engine::new(config).unwrap();
    let host = SandboxHost::builder(&engine).build().unwrap();
    World { applications: Applications::new(&engine).unwrap(), host, cache }
}

/// Returns an engine with prepared interpreters, for applications that execute scripts.
pub(crate) fn prepared() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let mut config = EngineConfig::default();
    config.pool = None;
    config.default_runtimes = vec!["python-3.12".into()];
    let engine = ENGINE.get_or_init(|| {
        let engine = Engine::new(config).unwrap();
        // Prepare the interpreter now, so that the time does not count towards the short deadlines of applications.
        Sandbox::builder(&engine).build().unwrap();
        engine
    });
    engine.clone()
}

pub(crate) fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Returns the application in `fixtures/probe.wat`, and the world that it belongs to.
pub(crate) fn probe() -> (World, Application) {
    let world = world();
    let bytes = component(include_str!("../fixtures/probe.wat"));
    let application = world.applications.load_bytes("probe", &bytes).unwrap();
    (world, application)
}

/// Calls the probe with these limits and grants.
pub(crate) fn call(call: &str, config: &AppConfig) -> AppReport {
    let (world, application) = probe();
    application.invoke(call, &world.host, config).unwrap()
}

/// Returns the result of a call to the probe, in WAVE.
pub(crate) fn value(of: &str, config: &AppConfig) -> String {
    let ended = call(of, config);
    ended.value.unwrap_or_else(|| panic!("{of}: {}", ended.outcome.describe()))
}

pub(crate) fn config(change: impl FnOnce(&mut AppConfig)) -> AppConfig {
    let mut config = AppConfig::default();
    change(&mut config);
    config
}

/// Returns the trap message of a call to the probe.
pub(crate) fn trap(of: &str, config: &AppConfig) -> String {
    match call(of, config).outcome {
        AppOutcome::Trapped { words } => words,
        other => panic!("{of}: {}", other.describe()),
    }
}

/// Returns the command in `fixtures/agent.wat` with a Python script, which must not contain quotation marks or line
/// breaks.
pub(crate) fn agent(script: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit("")).unwrap();
    let world = resolve.select_world(&[package], Some("command")).unwrap();
    encoded(include_str!("../fixtures/agent.wat"), script, &resolve, world)
}

/// Returns the asynchronous command in `fixtures/concurrent.wat` with a Python script, like [`agent`].
pub(crate) fn concurrent_agent(script: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    for directory in ["", "0.3"] {
        resolve.push_dir(wit(directory)).unwrap();
    }
    let package = resolve.push_str("concurrent.wit", include_str!("../fixtures/concurrent.wit")).unwrap();
    let world = resolve.select_world(&[package], Some("concurrent")).unwrap();
    encoded(include_str!("../fixtures/concurrent.wat"), script, &resolve, world)
}

/// Returns the tools component in `fixtures/concurrent-tools.wat`.
pub(crate) fn concurrent_tools() -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit("")).unwrap();
    let (package, _) = resolve.push_dir(wit("0.3")).unwrap();
    let world = resolve.select_world(&[package], Some("tool-provider")).unwrap();
    encoded(include_str!("../fixtures/concurrent-tools.wat"), "", &resolve, world)
}

/// Returns the path of a directory in `wit/`.
fn wit(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit").join(directory)
}

/// Encodes a module with a script as a component.
fn encoded(text: &str, script: &str, resolve: &Resolve, world: WorldId) -> Vec<u8> {
    let text = text.replace("LENGTH", &script.len().to_string());
    let mut module = component(&text.replace("SCRIPT", script));
    wit_component::embed_component_metadata(&mut module, resolve, world, wit_component::StringEncoding::UTF8).unwrap();
    wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
