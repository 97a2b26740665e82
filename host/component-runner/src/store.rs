//! Data of a store: WASI, an application's sandbox, and limits on the total size of its instances, memories and tables.

use glovebox_component_host::{SandboxCtx, SandboxView};
use wasmtime::{ResourceLimiter, component::ResourceTable};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::{AppConfig, AppLimits, Output, RunError};

/// Maximum number of random bytes per call. Larger requests trap. The bytes are generated in host memory, so the limit
/// is similar to the limit on data passed to the host.
const RANDOM_BYTES: u64 = 16 << 20;

/// Data of one store. `S` is the sandbox context, or `()` for tools.
pub(crate) struct StoreState<S> {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) sandbox: S,
}

impl<S> StoreState<S> {
    pub(crate) fn new(config: &AppConfig, sandbox: S) -> Result<Self, RunError> {
        let mut table = ResourceTable::new();
        table.set_max_capacity(config.limits.wasi_handles);
        Ok(Self { wasi: wasi(config)?, table, limiter: Limiter::new(&config.limits), sandbox })
    }
}

impl<S: Send> WasiView for StoreState<S> {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl SandboxView for StoreState<SandboxCtx> {
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

/// The size in bytes of the largest table element in Wasmtime, a function reference.
const ELEMENT_BYTES: u64 = 8;

/// The memory and table elements of one store. A store frees nothing before it is dropped, so the sums only grow.
///
/// Growth is counted even if the system then fails to provide the memory. Failures cannot be subtracted, because
/// Wasmtime also reports failures of growth that this limiter never counted.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory: Sum,
    tables: Sum,
    instances: usize,
}

#[derive(Debug)]
struct Sum {
    used: u64,
    max: u64,
    /// The rejected total, if the limit was exceeded.
    refused: Option<u64>,
}

impl Sum {
    fn new(max: u64) -> Self {
        Self { used: 0, max, refused: None }
    }

    /// Returns the sum of `used` and `more`, or `None` if the sum exceeds the limit.
    fn sum_with(&mut self, more: u64) -> Option<u64> {
        let wanted = self.used.saturating_add(more);
        if wanted > self.max {
            self.refused = Some(wanted);
            return None;
        }
        Some(wanted)
    }
}

impl Limiter {
    pub(crate) fn new(limits: &AppLimits) -> Self {
        Self {
            memory: Sum::new(limits.memory_bytes),
            tables: Sum::new(limits.table_elements),
            instances: limits.instances,
        }
    }

    /// Adds both bytes and table elements, or neither. Returns `false` if a sum would exceed its limit.
    fn try_add(&mut self, bytes: u64, elements: u64) -> bool {
        let (Some(elements), Some(bytes)) = (self.tables.sum_with(elements), self.memory.sum_with(bytes)) else {
            return false;
        };
        (self.tables.used, self.memory.used) = (elements, bytes);
        true
    }

    /// Counts the host memory of instances before they are created. Returns `false` if the sum would exceed the limit.
    pub(crate) fn reserve(&mut self, instance_bytes: u64) -> bool {
        self.try_add(instance_bytes, 0)
    }

    /// Returns the total size of all instances, memories and tables in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.used
    }

    /// Returns the rejected total in bytes, if the memory limit was exceeded.
    pub(crate) fn refused_bytes(&self) -> Option<u64> {
        self.memory.refused
    }
}

/// Returns the requested growth, or `None` if the type's own maximum forbids it. Forbidden growth is not counted.
fn growth(current: usize, desired: usize, maximum: Option<usize>) -> Option<u64> {
    let fits = maximum.is_none_or(|maximum| desired <= maximum);
    fits.then(|| u64::try_from(desired.saturating_sub(current)).unwrap_or(u64::MAX))
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(growth(current, desired, maximum).is_some_and(|bytes| self.try_add(bytes, 0)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let add = |elements: u64| self.try_add(elements.saturating_mul(ELEMENT_BYTES), elements);
        Ok(growth(current, desired, maximum).is_some_and(add))
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances.div_ceil(10)
    }

    fn tables(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter as _;

    use super::Limiter;
    use crate::AppLimits;

    fn limiter() -> Limiter {
        Limiter::new(&AppLimits { memory_bytes: 100, table_elements: 10, ..AppLimits::default() })
    }

    #[test]
    fn memories_count_together_under_at_and_over_the_limit() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 39, None).unwrap());
        assert!(!limiter.memory_growing(39, 41, None).unwrap());
        assert_eq!((limiter.memory_bytes(), limiter.refused_bytes()), (99, Some(101)));
        assert!(limiter.memory_growing(60, 61, None).unwrap());
        assert!(!limiter.memory_growing(0, usize::MAX, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 100);
    }

    #[test]
    fn failed_growth_is_not_deducted() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("beyond what its type allows")).unwrap();
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 60);
    }

    #[test]
    fn growth_over_the_type_maximum_is_not_counted() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, Some(60)).unwrap());
        assert!(!limiter.memory_growing(60, 61, Some(60)).unwrap());
        assert!(!limiter.memory_growing(0, 101, Some(60)).unwrap());
        assert!(!limiter.table_growing(0, 2, Some(1)).unwrap());
        assert_eq!((limiter.memory_bytes(), limiter.refused_bytes()), (60, None));
    }

    #[test]
    fn tables_have_a_limit_and_count_as_memory() {
        let mut limiter = limiter();
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
        assert!(limiter.memory_growing(0, 20, None).unwrap());
        assert!(!limiter.memory_growing(20, 21, None).unwrap());
        let mut limiter = Limiter::new(&AppLimits { memory_bytes: 79, table_elements: 10, ..AppLimits::default() });
        assert!(!limiter.table_growing(0, 10, None).unwrap());
        assert!(limiter.table_growing(0, 9, None).unwrap(), "refused growth is not counted");
    }

    #[test]
    fn instances_count_under_at_and_over_the_limit() {
        for (bytes, has_room) in [(0, true), (99, true), (100, true), (101, false), (u64::MAX, false)] {
            let mut limiter = limiter();
            assert_eq!(limiter.reserve(bytes), has_room, "{bytes}");
            // A rejected amount is not counted.
            assert_eq!(limiter.memory_growing(0, 1, None).unwrap(), bytes != 100, "{bytes}");
        }
    }
}
