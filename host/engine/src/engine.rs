//! The engine: the state that all sandboxes of a program share.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use glovebox_core::session::{SessionLedger, SessionUsage};
use glovebox_runtimes::{
    CacheDir, CustomImages, Digest, Fetcher, Manifest, Progress, Runtimes,
    guard::{Guard, GuardedDirectory},
};
use wasmtime::Linker;

use crate::{
    CacheLimits, EngineConfig, EngineError, ExecuteError, Metering, Network, PoolConfig, config,
    exec::{
        platform::{RunningGuard, Ticker},
        thread_pool::ThreadPool,
    },
    guest::{
        fuel, instantiate,
        recycled::{GuestStoreData, StackPool},
    },
    load::{
        parts,
        runtime::{self, Runtime, SharedPackages},
        typescript::Stripper,
    },
    tools::ToolThreads,
};

/// The state that all sandboxes of a program share: compiled runtimes, the instance pool, the ticker and the cache
/// directory. Create one engine per program. Clones are cheap and refer to the same engine.
///
/// ```no_run
/// use glovebox::{Engine, EngineConfig, Sandbox};
///
/// let engine = Engine::new(EngineConfig::default())?;
/// let sandbox = Sandbox::builder(&engine).build()?;
/// let execution = sandbox.execute("print(6 * 7)")?;
/// assert_eq!(execution.stdout.text(), "42\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<EngineInner>);

/// An engine for one metering mode, and the state that engines for both modes share.
pub(crate) struct EngineInner {
    /// A reference to this engine, for code that has only `&EngineInner`.
    pub(crate) me: Weak<EngineInner>,
    pub(crate) wasmtime: wasmtime::Engine,
    /// The metering mode of the code that `wasmtime` compiles.
    pub(crate) metering: Metering,
    pub(crate) linker: Linker<GuestStoreData>,
    pub(crate) stacks: StackPool,
    pub(crate) ticker: Ticker,
    /// The TypeScript stripper, loaded for the first TypeScript script.
    pub(crate) stripper: OnceLock<Stripper>,
    loaded: Mutex<HashMap<RuntimeKey, Arc<Runtime>>>,
    /// An engine with the same configuration, which compiles unmetered code. Created when it is first needed.
    unmetered: OnceLock<Engine>,
    shared: Arc<EngineShared>,
}

/// The state of an engine that does not depend on the metering mode.
pub(crate) struct EngineShared {
    pub(crate) runtimes: Arc<Runtimes>,
    /// Python packages, mounted at `/app/site-packages`. `None` under [`Packages::None`](crate::Packages::None).
    pub(crate) packages: Option<SharedPackages>,
    /// Custom images, if [`EngineConfig::custom_images`] is set.
    pub(crate) custom_images: Option<CustomImages>,
    pub(crate) progress: Arc<dyn Progress + Send + Sync>,
    pub(crate) sessions: SessionLedger,
    pub(crate) tool_threads: Arc<ToolThreads>,
    /// The threads for calls of components.
    pub(crate) call_threads: Arc<ThreadPool>,
    /// The limits of the instance pool. `None` if instances are allocated on demand.
    pub(crate) pool: Option<PoolConfig>,
    pub(crate) cache: CacheLimits,
    pub(crate) default_runtimes: Vec<String>,
    pub(crate) network: Option<Arc<dyn Network>>,
    /// The default runtimes for Python and for JavaScript, set at first use.
    pub(crate) preferred: (OnceLock<String>, OnceLock<String>),
    /// Guards that keep guests out of [`EngineConfig::private_dirs`] while the engine exists.
    _guards: Vec<Guard>,
}

impl Deref for EngineInner {
    type Target = EngineShared;

    fn deref(&self) -> &EngineShared {
        &self.shared
    }
}

/// The key of a loaded runtime: the cache key of its prepared artefact as text.
type RuntimeKey = String;

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("cache_dir", &self.cache_dir()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine. Does not fetch, compile or start anything yet.
    ///
    /// # Errors
    /// Fails if Wasmtime rejects the settings on this machine, or if the cache or another configured directory cannot
    /// be used.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let path = match config.cache_dir {
            Some(path) => path,
            None => CacheDir::default_path()?,
        };
        let cache = match config.seals_dir {
            Some(seals) => CacheDir::open_sealed(path, seals)?,
            None => CacheDir::open(path)?,
        };
        let fetcher = Fetcher::default().with_bundles(config.bundles);
        let runtimes = Runtimes::new(Manifest::builtin()?, cache).with_fetcher(fetcher).with_prepared(config.prepared);
        let (runtimes, packages) = runtime::open_packages(runtimes, config.packages, config.user_packages.as_deref())?;
        let shared = EngineShared {
            packages,
            runtimes,
            custom_images: config.custom_images.as_deref().map(CustomImages::open).transpose()?,
            progress: config.progress,
            sessions: SessionLedger::default(),
            tool_threads: ToolThreads::new(config.tool_threads),
            call_threads: Arc::default(),
            pool: config.pool,
            cache: config.cache,
            default_runtimes: config.default_runtimes,
            network: config.network,
            preferred: Default::default(),
            _guards: config.private_dirs.iter().map(|path| Guard::named(GuardedDirectory::Private, path)).collect(),
        };
        Ok(Self(EngineInner::new(Metering::Fuel, Arc::new(shared))?))
    }

    /// Returns the directory of the binaries and the prepared images.
    #[must_use]
    pub fn cache_dir(&self) -> &Path {
        self.0.runtimes.cache().path()
    }

    /// Returns the combined usage of this engine's sessions. Only sessions whose interpreter is in memory count.
    #[must_use]
    pub fn session_usage(&self) -> SessionUsage {
        self.0.sessions.usage()
    }

    /// Returns the path of the binary of a runtime or custom image, even if the binary has not been fetched yet.
    ///
    /// # Errors
    /// Fails if no runtime or custom image has this name, or if the image cannot be read.
    pub fn runtime_path(&self, name: &str) -> Result<PathBuf, crate::RuntimeError> {
        Ok(self.0.runtimes.path(&self.0.find(name)?.entry))
    }

    /// Returns an engine with this metering mode. Both engines share the cache, the session limits and the tool
    /// threads. Each engine has its own instance pool.
    pub(crate) fn with_metering(&self, metering: Metering) -> Result<Self, EngineError> {
        if metering == self.0.metering {
            return Ok(self.clone());
        }
        if let Some(unmetered) = self.0.unmetered.get() {
            return Ok(unmetered.clone());
        }
        // If two threads create an engine at the same time, one of the engines is dropped.
        let made = Self(EngineInner::new(Metering::None, Arc::clone(&self.0.shared))?);
        Ok(self.0.unmetered.get_or_init(|| made).clone())
    }
}

impl EngineInner {
    /// Creates an engine for one metering mode: a Wasmtime engine, and a linker with the imports of guests.
    fn new(metering: Metering, shared: Arc<EngineShared>) -> Result<Arc<Self>, EngineError> {
        let wasmtime = config::wasmtime_engine(shared.pool.as_ref(), metering)?;
        let mut linker = Linker::new(&wasmtime);
        instantiate::define_wasi(&mut linker)
            .and_then(|()| parts::define_loader(&mut linker))
            .and_then(|()| fuel::define_refuel(&mut linker))
            .map_err(|error| EngineError::Settings(format!("{error:#}")))?;
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            wasmtime,
            metering,
            linker,
            stacks: StackPool::default(),
            ticker: Ticker::default(),
            stripper: OnceLock::new(),
            loaded: Mutex::default(),
            unmetered: OnceLock::new(),
            shared,
        }))
    }

    /// Returns `true` if the images contain no libraries for scripts.
    pub(crate) fn is_lean(&self) -> bool {
        self.packages.is_none()
    }

    /// Runs `work` on a guest stack. Keeps the epoch advancing while `work` runs, if the engine's code is unmetered.
    pub(crate) fn on_stack<R>(&self, work: impl FnOnce() -> R) -> Result<R, ExecuteError> {
        let system = |what| move |source| ExecuteError::System { what, source };
        let _running = self.running().map_err(system("thread"))?;
        self.stacks.run(work).map_err(system("stack"))
    }

    /// Returns a guard that keeps the epoch advancing. Returns `None` if this engine's code is metered, because metered
    /// code does not check the epoch.
    pub(crate) fn running(&self) -> std::io::Result<Option<RunningGuard>> {
        match self.metering {
            Metering::Fuel => Ok(None),
            Metering::None => self.ticker.running(&self.wasmtime).map(Some),
        }
    }

    pub(crate) fn loaded(&self, key: &RuntimeKey) -> Option<Arc<Runtime>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Drops the idle instances of all runtimes. Returns `true` if there were any.
    pub(crate) fn drop_recycled(&self) -> bool {
        let runtimes: Vec<_> =
            self.loaded.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect();
        let cleared =
            runtimes.iter().filter_map(|runtime| runtime.recycled.as_ref()).filter(|recycled| recycled.clear());
        cleared.count() > 0
    }

    /// Stores a runtime that was just loaded and returns the stored one. If two threads loaded it concurrently, the
    /// first result stays stored.
    pub(crate) fn keep_loaded(&self, key: RuntimeKey, runtime: Runtime) -> Arc<Runtime> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(loaded.entry(key).or_insert_with(|| Arc::new(runtime)))
    }
}

/// Returns a digest of Wasmtime's version, the target CPU and the settings that change compiled code.
pub(crate) fn compile_digest(wasmtime: &wasmtime::Engine) -> Digest {
    let mut collected = HashedBytes(Vec::new());
    wasmtime.precompile_compatibility_hash().hash(&mut collected);
    Digest::of(&collected.0)
}

/// The bytes that a type feeds to its hasher, as input for SHA-256.
struct HashedBytes(Vec<u8>);

impl Hasher for HashedBytes {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}
