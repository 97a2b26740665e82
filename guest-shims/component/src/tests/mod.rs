//! Tests of executions with the guests of [`fake`], without an interpreter.

mod concurrent;
pub(crate) mod fake;
mod limits;
mod policy;
mod requests;
mod tools;

use std::rc::Rc;

use self::fake::{Fake, closed_world, runtime};
use crate::{
    Sandbox, World,
    bindings::types::{self, SandboxError},
};

/// Returns a policy request without settings.
pub(crate) fn no_policy() -> types::Policy {
    types::Policy {
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
    ($unused:expr, $($name:ident),*) => { types::Limits { $($name: None),* } };
}

/// Returns a policy request with only the limits that `set` assigns.
pub(crate) fn limits(set: impl FnOnce(&mut types::Limits)) -> types::Policy {
    let mut limits = glovebox_core::with_limits!(unset_limits, ());
    set(&mut limits);
    types::Policy { limits: Some(limits), ..no_policy() }
}

pub(crate) fn request(source: &str) -> types::Request {
    types::Request {
        source: source.into(),
        name: None,
        kind: None,
        stdin: None,
        context: None,
        files: None,
        deadline_ms: None,
    }
}

pub(crate) fn sandbox_in(world: &World, policy: types::Policy) -> Result<Sandbox, SandboxError> {
    let policy = world.policy(policy)?;
    let toolbox = crate::platform::host_toolbox(world).unwrap();
    Sandbox::new(world, runtime(0), policy, Rc::new(toolbox))
}

pub(crate) fn execute(sandbox: &Sandbox, source: &str) -> types::Execution {
    let task = sandbox.task(request(source)).unwrap();
    sandbox.execute(&task).unwrap().to_wit()
}

/// Returns a sandbox without a clock, and the [`Fake`] that provides its guests.
pub(crate) fn closed_sandbox(policy: types::Policy) -> (Rc<Fake>, Sandbox) {
    let (fake, world) = closed_world();
    let sandbox = sandbox_in(&world, policy).unwrap();
    (fake, sandbox)
}

pub(crate) fn printed(execution: &types::Execution) -> &str {
    std::str::from_utf8(&execution.stdout.bytes).unwrap()
}
