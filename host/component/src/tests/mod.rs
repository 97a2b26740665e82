//! Tests of the host's interfaces, called as a component calls them.

mod caller_tools;
mod ceilings;
mod quotas;
mod requests;
mod sessions;
mod stepping;
mod suspending;
mod tools;

use std::{env, path::PathBuf, sync::OnceLock};

use glovebox::{Engine, EngineConfig};
use wasmtime::component::Resource;

use super::{
    Quotas, SandboxCtx, SandboxHost,
    convert::SandboxFailure,
    session::SessionResource,
    wit::{
        sandbox::{Host, HostSession, SessionOptions},
        types::{Execution, Limits, Outcome, Policy, ProviderInfo, Request, Runtime, SandboxError, SessionPolicy},
    },
};

/// Distinct names for functions with the same name in two interfaces.
trait UnambiguousCalls {
    fn run(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxFailure>;
    fn provider(&mut self) -> ProviderInfo;
}

impl UnambiguousCalls for SandboxCtx {
    fn run(&mut self, runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxFailure> {
        Host::execute(self, runtime, request, policy)
    }

    fn provider(&mut self) -> ProviderInfo {
        Host::info(self).unwrap()
    }
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = EngineConfig::default();
        config.cache_dir = env::var_os("GLOVEBOX_CACHE_DIR").map(PathBuf::from);
        // `python-3.12` is faster to prepare than the default.
        config.default_runtimes = vec!["python-3.12".into()];
        Engine::new(config).unwrap()
    })
}

/// Returns a host, after applying changes to the default policy and quotas.
fn host(policy: impl FnOnce(&mut glovebox::Policy), quotas: impl FnOnce(&mut Quotas)) -> SandboxHost {
    let (mut granted, mut allowed) = (glovebox::Policy::default(), Quotas::default());
    policy(&mut granted);
    quotas(&mut allowed);
    SandboxHost::builder(engine()).policy(granted).quotas(allowed).build().unwrap()
}

fn ctx() -> SandboxCtx {
    host(|_| {}, |_| {}).ctx()
}

fn with_quotas(quotas: impl FnOnce(&mut Quotas)) -> SandboxCtx {
    host(|_| {}, quotas).ctx()
}

/// Returns a policy that requests nothing.
fn no_policy() -> Policy {
    Policy {
        limits: None,
        clock: None,
        entropy: None,
        args: None,
        env: None,
        inject_setup: None,
        auto_persist_globals: None,
        session: None,
    }
}

macro_rules! unset_limits {
    ($unused:expr, $($name:ident),*) => { Limits { $($name: None),* } };
}

/// Returns limits that request nothing.
fn no_limits() -> Limits {
    glovebox_core::with_limits!(unset_limits, ())
}

fn limited(edit: impl FnOnce(&mut Limits)) -> Policy {
    let mut limits = no_limits();
    edit(&mut limits);
    Policy { limits: Some(limits), ..no_policy() }
}

fn with_session(edit: impl FnOnce(&mut SessionPolicy)) -> Policy {
    let mut session =
        SessionPolicy { checkpoints: None, checkpoint_auto_bytes: None, checkpoints_retained: None, on_unwind: None };
    edit(&mut session);
    Policy { session: Some(session), ..no_policy() }
}

fn request(source: &str) -> Request {
    Request {
        source: source.into(),
        name: None,
        kind: None,
        stdin: None,
        context: None,
        files: None,
        deadline_ms: None,
    }
}

fn no_options() -> SessionOptions {
    SessionOptions { context: None, tools: None }
}

fn open(ctx: &mut SandboxCtx) -> Resource<SessionResource> {
    HostSession::open(ctx, Runtime::Javascript, no_policy(), no_options()).unwrap()
}

/// Copies a handle, so that it can be passed to another call.
fn same<T: 'static>(handle: &Resource<T>) -> Resource<T> {
    Resource::new_own(handle.rep())
}

/// Runs a JavaScript script and returns its output.
fn stdout_of(ctx: &mut SandboxCtx, source: &str) -> String {
    let execution = ctx.run(Runtime::Javascript, request(source), no_policy()).unwrap();
    assert_eq!(execution.outcome, Outcome::Completed, "{:?}", String::from_utf8_lossy(&execution.stderr.bytes));
    String::from_utf8(execution.stdout.bytes).unwrap()
}

/// Runs a script in a session and returns its output.
fn stdout_in(ctx: &mut SandboxCtx, session: &Resource<SessionResource>, source: &str) -> String {
    let execution = HostSession::execute(ctx, same(session), request(source)).unwrap();
    assert_eq!(execution.outcome, Outcome::Completed, "{:?}", String::from_utf8_lossy(&execution.stderr.bytes));
    String::from_utf8(execution.stdout.bytes).unwrap()
}

/// Returns the error. Panics on success or a trap.
fn error_of<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> SandboxError {
    match result {
        Err(SandboxFailure::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Returns the message of an exceeded quota.
fn over_quota<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> String {
    match error_of(result) {
        SandboxError::QuotaExceeded(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Returns the message of an invalid policy.
fn bad_policy<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> String {
    match error_of(result) {
        SandboxError::InvalidPolicy(text) => text,
        other => panic!("{other:?}"),
    }
}
