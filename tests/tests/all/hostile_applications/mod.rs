//! Tests hostile application components: some fail while they run, others are invalid components.
//!
//! Applications' use of WASI and each of their limits are tested in `glovebox-component-runner`.

mod binaries;
mod failing;
mod texts;
mod tool_providers;

use std::{sync::OnceLock, time::Duration};

use glovebox::{Engine, Language};
use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, AppOutcome, Applications};
use glovebox_tests::{engine, engine_config, sandbox};

const MIB: u64 = 1 << 20;

/// The timeout of a child process.
const LONG: Duration = Duration::from_secs(300);

/// An application loader with its host. The engine caches compiled code in a temporary directory.
struct World {
    applications: Applications,
    host: SandboxHost,
    _cache: tempfile::TempDir,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let cache = tempfile::tempdir().unwrap();
        let mut config = engine_config();
        (config.cache_dir, config.pool) = (Some(cache.path().into()), None);
        let engine = Engine::new(config).unwrap();
        let host = SandboxHost::builder(&engine).build().unwrap();
        World { applications: Applications::new(&engine).unwrap(), host, _cache: cache }
    })
}

/// Loads a component and calls its `f()`. Returns the outcome, or the reason why the component cannot be loaded.
fn loaded_and_called(bytes: &[u8], config: &AppConfig) -> Result<AppOutcome, String> {
    let World { applications, host, .. } = world();
    let application = applications.load_bytes("hostile", bytes).map_err(|error| chain(&error))?;
    application.invoke("f()", host, config).map(|ended| ended.outcome).map_err(|error| chain(&error))
}

/// Formats an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Asserts that the host's own sandboxes still execute scripts.
fn assert_others_work() {
    let execution = sandbox(Language::JavaScript, |_| ()).execute("console.log(7)").unwrap();
    assert_eq!(execution.stdout.text(), "7\n");
    assert!(Applications::new(engine()).is_ok());
}
