//! The configuration of an engine.

use std::{path::PathBuf, sync::Arc, time::Duration};

use glovebox_runtimes::Progress;
use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::{
    EngineError, Limits, Metering, Network,
    guest::recycled::{self, MAX_TABLE_ELEMENTS},
    load::aot,
};

/// The configuration of an [`Engine`](crate::Engine). Start from `default()` and change individual fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// The directory of binaries and prepared images. Default: `glovebox` in the user's cache directory
    /// (`$XDG_CACHE_HOME`, else `~/.cache`).
    pub cache_dir: Option<PathBuf>,
    /// The directory of the seals, which record that compiled files in the cache are unchanged. Users who can write to
    /// the cache must not be able to write to this directory. Default: `glovebox/seals` in the user's data directory
    /// (`$XDG_DATA_HOME`, else `~/.local/share`). Without a data directory, only the owner, mode and length of compiled
    /// files are checked.
    pub seals_dir: Option<PathBuf>,
    /// Directories that no guest of this process can reach while the engine exists. A mount must not equal, contain or
    /// lie inside one of them. The directories need not exist yet. The cache, the seals, custom packages, custom images
    /// and open session stores are always protected in the same way. Default: none.
    pub private_dirs: Vec<PathBuf>,
    /// The instance pool. Default: [`PoolConfig::default`]. With `None`, instances are allocated on demand. A program
    /// that runs only one script is faster without a pool, because reserving the pool's address space takes time.
    pub pool: Option<PoolConfig>,
    /// Maximum total number of concurrent tool calls in all executions. Each call runs on its own thread. Default:
    /// 1,024. Further calls fail with `ToolLimit`.
    pub tool_threads: u32,
    /// Limits on the compiled code in the cache. They are applied when code is added: code beyond its maximum age is
    /// removed first, then the least recently used code. Default: [`CacheLimits::default`].
    pub cache: CacheLimits,
    /// Libraries that the images provide to scripts, including the Python packages at `/app/site-packages`. Default:
    /// bundled.
    pub packages: Packages,
    /// The directory of custom packages ([`UserPackages`](crate::UserPackages)), which scripts can import in addition
    /// to the bundled packages. Custom packages are imported from source. Ignored with [`Packages::None`]. Default:
    /// none.
    pub user_packages: Option<PathBuf>,
    /// The directory of custom images ([`ImageBuilder`](crate::ImageBuilder)). An image's name can be used as a runtime
    /// name. Default: none.
    pub custom_images: Option<PathBuf>,
    /// Zip files of pinned files, written by [`Engine::write_bundle`](crate::Engine::write_bundle). Files are looked up
    /// in these zip files before they are requested over the network, and are verified like fetched files. Default:
    /// none.
    pub bundles: Vec<PathBuf>,
    /// Zip files of compiled code and prepared images, written by
    /// [`Engine::write_prepared`](crate::Engine::write_prepared). Code and images that are missing from the cache are
    /// copied from these files instead of being compiled and booted. This process runs the code, so these files must be
    /// as trustworthy as this program. Code for other settings, another CPU or another version of Glovebox is ignored.
    /// Default: none.
    pub prepared: Vec<PathBuf>,
    /// Names or aliases of the runtimes to use if a caller does not specify one. Custom images are allowed. These
    /// runtimes take precedence over runtimes that were added to the cache and over the manifest's defaults. For each
    /// language, the first entry applies. Default: none.
    pub default_runtimes: Vec<String>,
    /// The network for scripts whose policy allows network addresses, for example `glovebox_network::Http`. Default:
    /// none. Without a network, a sandbox with such a policy cannot be built.
    pub network: Option<Arc<dyn Network>>,
    /// The listener for the progress of fetching, booting and compiling. The listener can cancel fetching and booting.
    /// Default: none.
    pub progress: Arc<dyn Progress + Send + Sync>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            seals_dir: None,
            private_dirs: Vec::new(),
            pool: Some(PoolConfig::default()),
            tool_threads: 1_024,
            cache: CacheLimits::default(),
            packages: Packages::default(),
            user_packages: None,
            custom_images: None,
            bundles: Vec::new(),
            prepared: Vec::new(),
            default_runtimes: Vec::new(),
            network: None,
            progress: Arc::new(glovebox_runtimes::NoProgress),
        }
    }
}

/// Libraries that an engine's images provide to scripts. Each choice has its own prepared images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packages {
    /// The pinned packages. pip downloads their wheels when a Python runtime is first used. The packages are imported
    /// during preparation, so importing them again costs a script almost nothing.
    #[default]
    Bundled,
    /// No libraries, as in a provider component. Python scripts find no packages. Node modules for JavaScript are
    /// compiled at first use, which costs the script fuel.
    None,
}

/// The limits of the instance pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolConfig {
    /// Maximum number of concurrent instances, including sessions. Default: 1,100. Each instance reserves 8 GiB of
    /// address space but no memory. Idle instances are dropped when the pool is full and a new instance is needed.
    pub instance_count: u32,
    /// Maximum private memory of an idle instance, in bytes. Default: 2 MiB; a trivial Python script uses 0.5 MiB. The
    /// pages that a script wrote are restored by copying. An instance with more private memory is dropped. After a
    /// long-running script, where copying is cheap in comparison, the maximum is up to eight times as high.
    ///
    /// Each runtime keeps at most two idle instances per processor. When an instance is dropped, up to half of this
    /// maximum stays resident in its pool slot. This memory saves a later instance page faults. The rest of the
    /// instance's memory is returned to the system.
    pub keep_resident_bytes: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { instance_count: 1_100, keep_resident_bytes: 2 << 20 }
    }
}

/// Limits on the compiled code in the cache. Code that is in use or was just added is never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// Maximum total size of compiled runtimes, prepared images and prepared modules, in bytes. Default: 2 GiB.
    pub image_bytes: u64,
    /// Maximum total size of compiled components, in bytes. Default: 2 GiB.
    pub component_bytes: u64,
    /// Maximum time since the last use of compiled code, regardless of the cache size. Default: 30 days.
    pub max_age: Duration,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { image_bytes: 2 << 30, component_bytes: 2 << 30, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// Maximum size of an instance without its memory and tables, in bytes. CPython 3.15 has 47,000 functions whose address
/// is taken, and the instance has an entry for each of them.
const MAX_INSTANCE_BYTES: usize = 4 << 20;

/// Pool slots in addition to [`PoolConfig::instance_count`], for the pristine memories of loaded images. Each image has
/// one such memory, from which instances are restored. The number is not a limit: the memories of further images take
/// slots of `instance_count`.
const IMAGE_SLOTS: u32 = 8;

/// Maximum number of modules that an interpreter's code is split into.
const MAX_PARTS: u32 = 4;

/// Creates a Wasmtime engine. All settings that change compiled code are included in the cache key of a prepared image.
pub(crate) fn wasmtime_engine(pool: Option<&PoolConfig>, metering: Metering) -> Result<wasmtime::Engine, EngineError> {
    let mut config = aot::config_for_cpu();
    config
        // Metered code counts its fuel itself and calls the host after each slice of fuel.
        .epoch_interruption(metering == Metering::None)
        // The hints say that checks seldom call the host.
        .wasm_branch_hinting(true)
        // Guests are core modules and need no support for concurrency, which would change their compiled code.
        .concurrency_support(false)
        .max_wasm_stack(recycled::GUEST_STACK_BYTES)
        // Unused, because guests run on stacks of the engine's own pool. Wasmtime requires a size of at least
        // `max_wasm_stack`.
        .async_stack_size(recycled::GUEST_STACK_BYTES)
        // CPython 3.15 uses WebAssembly exceptions, which are garbage-collected objects. Other runtimes do not throw
        // exceptions.
        .wasm_exceptions(true)
        // A guest's traceback comes from its interpreter. The interpreter's Wasm frames do not help users, and
        // collecting them takes time.
        .wasm_backtrace_max_frames(None)
        // Address maps and unwind information are used only by tracebacks and debuggers, and make up a tenth of the
        // code's size.
        .generate_address_map(false)
        .native_unwind_info(false)
        // Images are mostly non-zero data: always map them copy-on-write, regardless of size.
        .memory_guaranteed_dense_image_size(Limits::MAX_MEMORY_BYTES)
        .memory_init_cow(true);
    if let Some(pool) = pool {
        let mut pooling = PoolingAllocationConfig::new();
        let places = pool.instance_count.saturating_add(IMAGE_SLOTS);
        pooling
            // Each guest uses one core instance for its memory and one for each module of its code.
            .total_core_instances(places.saturating_mul(1 + MAX_PARTS))
            // The heap for garbage-collected objects is also a memory and is included in this limit.
            .total_memories(places.saturating_mul(2))
            .total_tables(places)
            .total_gc_heaps(places)
            .max_core_instance_size(MAX_INSTANCE_BYTES)
            .max_memory_size(usize::try_from(Limits::MAX_MEMORY_BYTES).unwrap_or(usize::MAX))
            .table_elements(MAX_TABLE_ELEMENTS)
            // Half of the limit for recycled instances. Otherwise, a new instance in a used slot could already exceed
            // the limit.
            .linear_memory_keep_resident(pool.keep_resident_bytes / 2)
            .table_keep_resident(MAX_TABLE_ELEMENTS)
            .pagemap_scan(Enabled::Auto);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling));
    }
    wasmtime::Engine::new(&config).map_err(|error| EngineError::Settings(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If interpreters were compiled with support for concurrency, enabling Wasmtime's Cargo feature
    /// `component-model-async` would invalidate every prepared image.
    #[test]
    fn interpreters_are_compiled_without_support_for_concurrency() {
        for metering in [Metering::Fuel, Metering::None] {
            let engine = wasmtime_engine(None, metering).unwrap();
            assert!(!engine.get_concurrency_support());
        }
    }
}
