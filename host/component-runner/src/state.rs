//! Data of a store: WASI, limits, and an application's sandbox.

use glovebox::component::{SandboxCtx, SandboxView};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::{AppConfig, Output, RunError, limiter::Limiter};

/// Maximum length of random bytes per call. More traps. They are generated in host memory, so the limit is similar to
/// the one on data passed to the host.
const RANDOM_BYTES: u64 = 16 << 20;

/// Data of one store. `S` is the sandbox, or `()`.
pub(crate) struct State<S> {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) sandbox: S,
}

impl<S> State<S> {
    pub(crate) fn new(config: &AppConfig, sandbox: S) -> Result<Self, RunError> {
        let mut table = ResourceTable::new();
        table.set_max_capacity(config.limits.wasi_handles);
        Ok(Self { wasi: wasi(config)?, table, limiter: Limiter::new(&config.limits), sandbox })
    }
}

impl<S: Send> WasiView for State<S> {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl SandboxView for State<SandboxCtx> {
    fn sandbox(&mut self) -> &mut SandboxCtx {
        &mut self.sandbox
    }
}

/// Creates a WASI context with the configured grants.
fn wasi(config: &AppConfig) -> Result<WasiCtx, RunError> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&config.args).envs(&config.env).max_random_size(RANDOM_BYTES);
    config.stdin.set(&mut wasi);
    match &config.stdout {
        Output::Discard => {}
        Output::Inherit => drop(wasi.inherit_stdout()),
        Output::InheritStderr => drop(wasi.stdout(std::io::stderr())),
        Output::Buffer(buffer) => drop(wasi.stdout(buffer.0.clone())),
    }
    match &config.stderr {
        Output::Discard => {}
        Output::Inherit | Output::InheritStderr => drop(wasi.inherit_stderr()),
        Output::Buffer(buffer) => drop(wasi.stderr(buffer.0.clone())),
    }
    for directory in &config.directories {
        let permissions = if directory.is_read_only { FsPerms::ReadOnly } else { FsPerms::ReadWrite };
        glovebox::mount::check_directory(&directory.host)?;
        wasi.preopened_dir(&directory.host, &directory.guest, permissions)
            .map_err(|error| RunError::Directory { host: directory.host.clone(), reason: format!("{error:#}") })?;
    }
    if config.network {
        wasi.inherit_network().allow_tcp(true).allow_udp(true).allow_ip_name_lookup(true);
    }
    Ok(wasi.build())
}
