//! What several subjects need.

use std::sync::OnceLock;

use glovebox::{Engine, EngineConfig, component::SandboxHost};
use glovebox_application::{AppConfig, AppOutcome, Application, Applications, Ended};

/// An engine with a cache of its own. What executes scripts uses [`prepared`] instead.
pub(crate) struct World {
    pub(crate) applications: Applications,
    pub(crate) host: SandboxHost,
    _cache: tempfile::TempDir,
}

pub(crate) fn world() -> World {
    let cache = tempfile::tempdir().unwrap();
    let mut config = EngineConfig::default();
    (config.cache_dir, config.pool) = (Some(cache.path().into()), None);
    let engine = Engine::new(config).unwrap();
    let host = SandboxHost::builder(&engine).build().unwrap();
    World { applications: Applications::new(&engine).unwrap(), host, _cache: cache }
}

/// The engine that has the prepared interpreters, for applications that execute scripts.
pub(crate) fn prepared() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let mut config = EngineConfig::default();
    config.pool = None;
    ENGINE.get_or_init(|| Engine::new(config).unwrap()).clone()
}

pub(crate) fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The application of `fixtures/probe.wat`.
pub(crate) fn probe() -> (World, Application) {
    let world = world();
    let bytes = component(include_str!("../fixtures/probe.wat"));
    let application = world.applications.load_bytes("probe", &bytes).unwrap();
    (world, application)
}

/// Calls the probe with these limits and grants.
pub(crate) fn call(call: &str, config: &AppConfig) -> Ended {
    let (world, application) = probe();
    application.invoke(call, &world.host, config).unwrap()
}

/// What a call returns.
pub(crate) fn value(of: &str, config: &AppConfig) -> String {
    let ended = call(of, config);
    ended.value.unwrap_or_else(|| panic!("{of}: {}", ended.outcome.describe()))
}

pub(crate) fn config(change: impl FnOnce(&mut AppConfig)) -> AppConfig {
    let mut config = AppConfig::default();
    change(&mut config);
    config
}

/// The words of the trap that a call ends in.
pub(crate) fn trap(of: &str, config: &AppConfig) -> String {
    match call(of, config).outcome {
        AppOutcome::Trapped { words } => words,
        other => panic!("{of}: {}", other.describe()),
    }
}
