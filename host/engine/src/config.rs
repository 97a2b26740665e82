//! How an engine is set up.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use glovebox_runtimes::Progress;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::{EngineError, Limits, Metering, stack, state::MAX_TABLE_ELEMENTS};

/// How an [`Engine`](crate::Engine) is set up. Make one with `default()` and change what differs.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineConfig {
    /// Where binaries and prepared images are stored. Default: `glovebox` in the user's cache directory
    /// (`$XDG_CACHE_HOME`, else `~/.cache`).
    pub cache_dir: Option<PathBuf>,
    /// The directory that records which compiled files in the cache are unchanged. Whoever can write to the cache must not be able to write
    /// here. Default: `glovebox/seals` in the user's data directory (`$XDG_DATA_HOME`, else `~/.local/share`). If there is
    /// none, only owner, mode and length of compiled files are checked.
    pub seals_dir: Option<PathBuf>,
    /// Directories that no guest of this process may reach as long as the engine lives: no mount may be one of them, contain
    /// one or lie in one. They need not exist yet. The same always holds for the cache, the seals, packages and session stores that
    /// are open. Default: none.
    pub private_dirs: Vec<PathBuf>,
    /// Instances that stay ready. Default: a pool. A program that runs one script is faster without: the pool's
    /// address space costs time to reserve.
    pub pool: Option<PoolConfig>,
    /// How many calls of tools run at once in all executions together, each on a thread. Default 1,024. Beyond it a call
    /// fails with `ToolLimit`.
    pub tool_threads: u32,
    /// How much compiled code stays in the cache. Adding to it removes what is too old, and the least recently used until
    /// the rest fits.
    pub cache: CacheLimits,
    /// Which libraries images hold for scripts, Python packages at `/app/site-packages` among them. Default: the bundled ones.
    pub packages: Packages,
    /// A directory of the user's own packages ([`OwnPackages`](crate::OwnPackages)), which scripts find beside the bundled ones. Default: none.
    /// They are imported from source; an engine without packages has none of these either.
    pub own_packages: Option<PathBuf>,
    /// A directory of the user's own images ([`ImageBuilder`](crate::ImageBuilder)), whose names are runtimes' as well. Default: none.
    pub own_images: Option<PathBuf>,
    /// A zip file of pinned files, as [`Engine::write_bundle`](crate::Engine::write_bundle) writes it: it is looked into before a network is
    /// asked, and what it holds is verified as what is fetched. Default: none.
    pub bundle: Option<PathBuf>,
    /// Runtimes that run the scripts of their languages where nobody names one, in the place of what was added to the cache and of the
    /// defaults; of several of a language the first. Names and aliases, and those of images of one's own. Default: none.
    pub default_runtimes: Vec<String>,
    /// Receives the progress of fetching, booting and compiling, and can abort them. Default: none.
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
            own_packages: None,
            own_images: None,
            bundle: None,
            default_runtimes: Vec::new(),
            progress: Arc::new(glovebox_runtimes::Quiet),
        }
    }
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("cache_dir", &self.cache_dir)
            .field("seals_dir", &self.seals_dir)
            .field("private_dirs", &self.private_dirs)
            .field("pool", &self.pool)
            .field("tool_threads", &self.tool_threads)
            .field("cache", &self.cache)
            .field("packages", &self.packages)
            .field("own_packages", &self.own_packages)
            .field("own_images", &self.own_images)
            .field("bundle", &self.bundle)
            .field("default_runtimes", &self.default_runtimes)
            .finish_non_exhaustive()
    }
}

/// Which libraries an engine's images hold for scripts. A prepared image belongs to one choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packages {
    /// The pinned ones: pip downloads their wheels when a Python runtime is first used. They are imported at preparation, so that
    /// importing them costs a script next to nothing.
    #[cfg_attr(feature = "packages", default)]
    Bundled,
    /// None, as in a portable provider: Python scripts find no packages, and Node's modules for JavaScript are compiled when a
    /// script first uses them, on that script's fuel. The default in a build without the feature `packages`.
    #[cfg_attr(not(feature = "packages"), default)]
    None,
}

/// The pool that instances are taken from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolConfig {
    /// How many instances can exist at once, sessions included. Default 1,100. Each reserves 8 GiB of address space and no memory.
    /// Instances that wait for another script are dropped when a session needs their place.
    pub instance_count: u32,
    /// How much memory of its own an instance may have, in bytes, that waits for another script: what it wrote to is restored by
    /// copying. With more it is dropped, unless its script took so long that copying is little beside it: then it may have eight times as
    /// much. Default 2 MiB, of which a trivial Python script takes 0.5. At most twice as many instances wait as there are processors, for
    /// each runtime. Of an instance that is dropped, a session's among them, half as much stays with its
    /// place in the pool, so that the next one there need not ask the system for it; the rest is given back.
    pub keep_resident_bytes: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { instance_count: 1_100, keep_resident_bytes: 2 << 20 }
    }
}

/// How much compiled code stays in the cache. What is in use stays in any case, and so does what was just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// What compiled runtimes, prepared images and prepared modules may take together, in bytes. Default 2 GiB.
    pub image_bytes: u64,
    /// What compiled components may take together, in bytes. Default 2 GiB.
    pub component_bytes: u64,
    /// Code that was not used for this long is removed, however much room there is. Default 30 days.
    pub max_age: Duration,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { image_bytes: 2 << 30, component_bytes: 2 << 30, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// What an instance may take beside its memory and tables: CPython 3.15 has 47,000 functions whose address is taken.
const MAX_INSTANCE_BYTES: usize = 4 << 20;

/// Images that are loaded at once, each with an instance that is never entered: what others are compared with and restored from. They
/// are no instances in the sense of [`PoolConfig::instance_count`].
const MAX_IMAGES: u32 = 8;

/// Wasmtime's settings. Everything that changes compiled code is part of a prepared image's cache key.
pub(crate) fn wasmtime_engine(pool: Option<&PoolConfig>, metering: Metering) -> Result<wasmtime::Engine, EngineError> {
    let mut config = Config::new();
    config
        .consume_fuel(metering == Metering::Fuel)
        .epoch_interruption(true)
        .max_wasm_stack(stack::GUEST_STACK_BYTES)
        // Not used, since guests run on stacks of our own, but never allowed to be less.
        .async_stack_size(stack::GUEST_STACK_BYTES)
        // CPython 3.15 is compiled with exceptions, which are collected objects. Others throw none.
        .wasm_exceptions(true)
        // A guest's traceback comes from its interpreter. Frames of the interpreter itself help nobody, and cost time.
        .wasm_backtrace_max_frames(None)
        // An image is mostly filled: always map it copy-on-write, whatever its size.
        .memory_guaranteed_dense_image_size(Limits::MAX_MEMORY_BYTES)
        .memory_init_cow(true);
    if let Some(pool) = pool {
        let mut pooling = PoolingAllocationConfig::new();
        let places = pool.instance_count.saturating_add(MAX_IMAGES);
        pooling
            // A guest's code is one, and its memory another.
            .total_core_instances(places.saturating_mul(2))
            // Collected objects are in a memory of their own, which is one of these.
            .total_memories(places.saturating_mul(2))
            .total_tables(places)
            .total_gc_heaps(places)
            .max_core_instance_size(MAX_INSTANCE_BYTES)
            .max_memory_size(usize::try_from(Limits::MAX_MEMORY_BYTES).unwrap_or(usize::MAX))
            .table_elements(MAX_TABLE_ELEMENTS)
            // Less than an instance may have that is used again: else one made in such a place might have too much from the beginning.
            .linear_memory_keep_resident(pool.keep_resident_bytes / 2)
            .table_keep_resident(MAX_TABLE_ELEMENTS)
            .pagemap_scan(Enabled::Auto);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling));
    }
    wasmtime::Engine::new(&config).map_err(|error| EngineError::Settings(format!("{error:#}")))
}
