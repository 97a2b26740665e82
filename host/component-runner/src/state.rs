//! What a store has: WASI, limits, and for applications the sandbox.

use glovebox::component::{SandboxCtx, SandboxView};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::{AppConfig, Output, RunError, limiter::Limiter};

/// The most random bytes that one call gives; more is a trap. They are made in the host's memory, so that the bound is the one on what a call
/// hands over in the other direction, in its order of magnitude.
const RANDOM_BYTES: u64 = 16 << 20;

/// The data of one store. `S` is its sandbox, or nothing.
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

/// WASI with what is granted and nothing else.
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
