//! The sandbox of one store, and the host configuration that all stores share.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::{
    CancelToken, Engine, Language, Metering, OnCancel, Policy, PolicyError, Sandbox, SandboxBuilder, Tool,
    ToolDefinition, ToolDefinitionError,
    internal::{ToolRules, Toolbox, call_threads, offered_runtimes, random_id, runtime_name},
};
use glovebox_core::contract::check_file_path;
use wasmtime::component::{Resource, ResourceTable};

use super::{
    call_queue::CallQueue,
    convert::{self, Grant, SandboxFailure},
    quotas::{Meter, QuotaShare, QuotaUse, Quotas, Usage},
    wit::types,
};

/// Maximum number of cached sandboxes per store, for components that use several policies.
const SANDBOXES_CACHED: usize = 8;

/// Maximum estimated memory for the arguments and environment of a cached sandbox, in bytes.
const MAX_CACHED_BYTES: u64 = 4_096;

/// The sandbox of one store. It owns all resources that the store's component opens. Dropping the context cancels the
/// component's executions and frees the resources.
pub struct SandboxCtx {
    pub(super) caller: Arc<Caller>,
    table: ResourceTable,
    place: TableLocation,
}

/// The parts of a store's sandbox except its resources. Calls on other threads share these parts.
pub(super) struct Caller {
    pub(super) host: SandboxHost,
    pub(super) meter: Arc<Meter>,
    pub(super) cancel: CancelToken,
    /// The calls that wait for a thread.
    pub(super) queue: Arc<CallQueue>,
    _on_cancel: OnCancel,
    pub(super) id: String,
    /// Recently used sandboxes, the most recent sandbox first.
    sandboxes: Mutex<Vec<CachedSandbox>>,
}

/// The location of the resource table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableLocation {
    Here,
    /// Lent to a call whose future is pending or was dropped.
    Lent,
    /// Borrowed from the store's context until the call returns.
    Borrowed,
}

/// A sandbox with the runtime and the policy that it was built for.
struct CachedSandbox {
    runtime: types::Runtime,
    policy: types::Policy,
    sandbox: Sandbox,
}

/// A resource of the component with its share of the handle quota.
struct CountedResource<T> {
    resource: T,
    _share: QuotaShare,
}

/// The data of a store that has a sandbox.
pub trait SandboxView: Send {
    /// Returns the store's sandbox.
    fn sandbox(&mut self) -> &mut SandboxCtx;
}

impl SandboxView for SandboxCtx {
    fn sandbox(&mut self) -> &mut SandboxCtx {
        self
    }
}

impl fmt::Debug for SandboxCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxCtx").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Drop for SandboxCtx {
    fn drop(&mut self) {
        if self.place != TableLocation::Borrowed {
            self.caller.cancel.cancel();
        }
    }
}

impl SandboxHost {
    /// Creates the sandbox of a store. Each store needs its own sandbox.
    #[must_use]
    pub fn ctx(&self) -> SandboxCtx {
        SandboxCtx::new(self.clone())
    }
}

impl SandboxCtx {
    fn new(host: SandboxHost) -> Self {
        let meter = Meter::new(host.0.quotas.clone());
        let queue = CallQueue::new(call_threads(&host.0.engine), host.0.quotas.calls_at_once);
        let (cancel, cancelled) = (CancelToken::new(), Arc::downgrade(&queue));
        let on_cancel = cancel.on_cancel(move || {
            if let Some(queue) = cancelled.upgrade() {
                queue.cancel();
            }
        });
        let id = random_id();
        let caller = Caller { host, meter, cancel, queue, _on_cancel: on_cancel, id, sandboxes: Mutex::default() };
        Self { caller: Arc::new(caller), table: ResourceTable::new(), place: TableLocation::Here }
    }

    /// Lends the component's resources to a call on another thread.
    pub(super) fn lend(&mut self) -> wasmtime::Result<Self> {
        self.check_present()?;
        self.place = TableLocation::Lent;
        Ok(Self { caller: Arc::clone(&self.caller), table: mem::take(&mut self.table), place: TableLocation::Borrowed })
    }

    /// Takes back the resources that [`lend`](Self::lend) lent.
    pub(super) fn take_back(&mut self, mut lent: Self) {
        mem::swap(&mut self.table, &mut lent.table);
        self.place = TableLocation::Here;
    }

    /// Returns the context. Fails if the resources are lost, because the future of a call was dropped.
    pub(super) fn check_present(&mut self) -> wasmtime::Result<&mut Self> {
        match self.place {
            TableLocation::Lent => Err(wasmtime::Error::msg(
                "the future of an earlier call into the sandbox was dropped, which made this store's sandbox unusable; create another store",
            )),
            TableLocation::Here | TableLocation::Borrowed => Ok(self),
        }
    }

    /// Returns the ID of this sandbox: 128 random bits in hexadecimal. For executions outside sessions, log events and
    /// [`ToolCall`](glovebox::ToolCall)s contain this ID instead of a session ID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.caller.id
    }

    /// Returns a token that cancels all executions of the component from any thread. Running and later executions end
    /// with the outcome `cancelled`.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        self.caller.cancel.clone()
    }

    /// Returns the component's usage of its quotas.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.caller.meter.usage()
    }

    /// Adds a resource and returns its handle. The caller takes `share` from the quota before it creates the resource.
    pub(super) fn put<T: Send + 'static>(
        &mut self,
        share: QuotaShare,
        resource: T,
    ) -> Result<Resource<T>, SandboxFailure> {
        let handle = self.table.push(CountedResource { resource, _share: share })?;
        Ok(Resource::new_own(handle.rep()))
    }

    /// Returns the resource of a handle. Traps if the handle is invalid.
    pub(super) fn get<T: Send + 'static>(&self, handle: &Resource<T>) -> wasmtime::Result<&T> {
        Ok(&self.table.get(&Resource::<CountedResource<T>>::new_borrow(handle.rep()))?.resource)
    }

    /// Like [`get`](Self::get), but returns a mutable reference.
    pub(super) fn get_mut<T: Send + 'static>(&mut self, handle: &Resource<T>) -> wasmtime::Result<&mut T> {
        Ok(&mut self.table.get_mut(&Resource::<CountedResource<T>>::new_borrow(handle.rep()))?.resource)
    }

    /// Removes a resource and returns it. Traps if the handle is invalid.
    pub(super) fn take<T: Send + 'static>(&mut self, handle: Resource<T>) -> wasmtime::Result<T> {
        Ok(self.table.delete(Resource::<CountedResource<T>>::new_own(handle.rep()))?.resource)
    }
}

impl Caller {
    /// Returns a sandbox whose workspace contains a request's files. A sandbox with files is built for this request and
    /// not cached.
    pub(super) fn sandbox_with_files(
        &self,
        runtime: types::Runtime,
        policy: types::Policy,
        files: Vec<types::InputFile>,
    ) -> Result<Sandbox, SandboxFailure> {
        if files.is_empty() {
            return self.sandbox_for(runtime, policy);
        }
        let weight = files.iter().map(|file| file.path.len() as u64 + file.bytes.len() as u64);
        let weight = weight.fold(convert::weight(&policy), u64::saturating_add);
        let mut builder =
            self.builder(&runtime, policy)?.keep_alive(Arc::new(self.meter.take(QuotaUse::Bytes(weight))?));
        for types::InputFile { path, bytes } in files {
            check_file_path(&path)?;
            builder = builder.file(path, bytes);
        }
        Ok(builder.build()?)
    }

    /// Returns a builder for a sandbox with this runtime and policy.
    fn builder(&self, runtime: &types::Runtime, policy: types::Policy) -> Result<SandboxBuilder, SandboxFailure> {
        let host = &self.host.0;
        let requested = host.grant.policy(policy)?;
        requested.check()?;
        let builder = Sandbox::builder(&host.engine).policy(requested).toolbox(&host.toolbox);
        Ok(match runtime {
            types::Runtime::Python => builder.language(Language::Python),
            types::Runtime::Javascript => builder.language(Language::JavaScript),
            types::Runtime::Named(name) => {
                let found = runtime_name(&host.engine, name);
                let offered = found.filter(|name| host.info.runtimes.iter().any(|each| each.name == *name));
                // A runtime that is not offered is rejected like an unknown runtime.
                builder.runtime(offered.unwrap_or(""))
            }
        })
    }

    /// Returns a sandbox with this runtime and policy, from the cache or newly built.
    pub(super) fn sandbox_for(
        &self,
        runtime: types::Runtime,
        policy: types::Policy,
    ) -> Result<Sandbox, SandboxFailure> {
        if let Some(sandbox) = self.cached(&runtime, &policy) {
            return Ok(sandbox);
        }
        // The cache is not locked here: building a sandbox can take seconds, and other calls need the cache.
        let builder = self.builder(&runtime, policy.clone())?;
        let weight = convert::weight(&policy);
        let sandbox = match weight {
            0 => builder.build()?,
            bytes => builder.keep_alive(Arc::new(self.meter.take(QuotaUse::Bytes(bytes))?)).build()?,
        };
        // Sandboxes with large policies are not cached. A concurrent call may have built the same sandbox.
        if weight <= MAX_CACHED_BYTES && self.cached(&runtime, &policy).is_none() {
            let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
            sandboxes.truncate(SANDBOXES_CACHED - 1);
            sandboxes.insert(0, CachedSandbox { runtime, policy, sandbox: sandbox.clone() });
        }
        Ok(sandbox)
    }

    /// Returns the cached sandbox with this runtime and policy, and marks it as used.
    fn cached(&self, runtime: &types::Runtime, policy: &types::Policy) -> Option<Sandbox> {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sandboxes.iter().position(|made| made.runtime == *runtime && made.policy == *policy)?;
        sandboxes.get_mut(..=found)?.rotate_right(1);
        Some(sandboxes.first()?.sandbox.clone())
    }
}

/// The configuration of sandboxes for components: an engine, the granted policy, quotas, and tools for scripts. Clones
/// are cheap. One host serves any number of stores.
#[derive(Clone)]
pub struct SandboxHost(pub(super) Arc<SandboxHostInner>);

pub(super) struct SandboxHostInner {
    pub(super) engine: Engine,
    pub(super) grant: Grant,
    pub(super) default_policy: types::Policy,
    pub(super) info: types::ProviderInfo,
    pub(super) quotas: Quotas,
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) toolbox: Arc<Toolbox>,
}

impl fmt::Debug for SandboxHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxHost")
            .field("policy", &self.0.grant.0)
            .field("quotas", &self.0.quotas)
            .finish_non_exhaustive()
    }
}

/// A builder of a [`SandboxHost`].
#[derive(Debug)]
#[must_use]
pub struct SandboxHostBuilder {
    engine: Engine,
    policy: Policy,
    quotas: Quotas,
    tools: Vec<Tool>,
}

/// The reason why a [`SandboxHost`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy contains host directories, which are not available to scripts of components. Components pass files
    /// through `session.write-file` and `files`.
    #[error(
        "a component's policy must not contain `{key}`, because its scripts have no access to host directories; remove this key"
    )]
    HostDirectory {
        /// The key of the policy that contains the host directory.
        key: &'static str,
    },
    /// The policy turns off fuel metering, which the fuel quota needs.
    #[error(
        "a component's policy must not contain `metering = \"none\"`, because the fuel quota needs metering; remove this key"
    )]
    Unmetered,
    /// A tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
}

impl SandboxHostBuilder {
    /// Sets the granted policy: the default for components, and the upper bound of their requests. Default:
    /// [`Policy::default`].
    ///
    /// Components can request at most the granted value of each limit, of `session.checkpoints_retained` and of
    /// `session.checkpoint_auto_bytes`. They can always request a fixed clock and seeded entropy. They can request the
    /// host's clock and entropy only if these are granted. They can freely choose arguments, environment,
    /// `inject_setup`, persistent globals, the times of checkpoints, and the handling of unwound sessions.
    ///
    /// The restrictions in [`Policy::tools`] apply to the tools of this host and to the component's own tools. Each
    /// call that the component itself makes counts as a separate execution.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the quotas of each store's component. Default: [`Quotas::default`].
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Adds a host function that scripts of components can call as `tools.name(…)`.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Checks the policy and the tools, and builds the host.
    ///
    /// # Errors
    /// Fails if the policy is invalid, contains host directories or turns off metering, or if a tool is invalid.
    pub fn build(self) -> Result<SandboxHost, HostError> {
        let Self { engine, policy, quotas, tools } = self;
        policy.check()?;
        if policy.workspace.is_some() {
            return Err(HostError::HostDirectory { key: "workspace" });
        }
        if !policy.mounts.is_empty() {
            return Err(HostError::HostDirectory { key: "mounts" });
        }
        if policy.metering == Metering::None {
            return Err(HostError::Unmetered);
        }
        let toolbox = Arc::new(Toolbox::new(&tools)?.restricted(ToolRules::new(&policy.tools)?));
        let tools = tools.iter().map(Tool::definition).collect();
        let grant = Grant(policy);
        let (default_policy, info) = (grant.granted().into(), info(&engine));
        Ok(SandboxHost(Arc::new(SandboxHostInner { engine, grant, default_policy, info, quotas, tools, toolbox })))
    }
}

impl SandboxHost {
    /// Returns a builder with the default policy and quotas.
    pub fn builder(engine: &Engine) -> SandboxHostBuilder {
        SandboxHostBuilder {
            engine: engine.clone(),
            policy: Policy::default(),
            quotas: Quotas::default(),
            tools: Vec::new(),
        }
    }

    /// Returns the granted policy: the default for components, and the upper bound of their requests.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.grant.0
    }
}

fn info(engine: &Engine) -> types::ProviderInfo {
    let runtimes = offered_runtimes(engine).into_iter().map(|runtime| types::RuntimeInfo {
        name: runtime.name.to_owned(),
        language: runtime.language.into(),
        version: Some(runtime.version.to_owned()),
    });
    types::ProviderInfo {
        name: "glovebox".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        features: types::Features::WALL_CLOCK
            | types::Features::ENTROPY
            | types::Features::TOOLS
            | types::Features::STEPPING,
        runtimes: runtimes.collect(),
    }
}
