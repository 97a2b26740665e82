//! Implements `resource session`: the sessions of a component.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use glovebox::{
    CancelToken, CheckpointId, HibernateOptions, ResumeOptions, Sandbox, Session, SessionFiles,
    internal::{Budget, CallToken, SessionScope},
};
use glovebox_core::contract::{check_json, check_variable_name};
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    convert::{self, SandboxFailure, refused},
    ctx::Caller,
    quotas::{QuotaShare, QuotaUse},
    sandbox::{Bytes, Snapshot},
    started::StartedResource,
    wit::{
        sandbox::{HostSession, SessionOptions},
        types::{CheckpointInfo, Execution, GuestValue, IfExists, Policy, Request, Runtime, SessionInfo},
    },
};

/// The fuel of a call into a session, in multiples of the execution's limit: one for the execution, and one for a
/// rollback of the session.
const SHARES_OF_A_CALL: u64 = 2;

impl Caller {
    /// Creates a session, and charges the fuel of the code that runs during its creation.
    pub(super) fn make<E>(
        &self,
        sandbox: &Sandbox,
        make: impl FnOnce(&SessionScope) -> Result<Session, E>,
    ) -> Result<SessionResource, SandboxFailure>
    where
        SandboxFailure: From<E>,
    {
        let share = self.meter.take(QuotaUse::Session)?;
        let keeper = SessionScope { cancel: self.cancel.clone(), budget: Budget::empty(), call: CallToken::default() };
        let reservation = self.meter.execution(fuel_of_a_call(sandbox), &keeper.budget)?;
        let session = make(&keeper)?;
        drop(reservation);
        Ok(SessionResource::new(session, keeper, share))
    }

    /// Creates a session with this runtime and policy, and with the tools and the `context` in the options.
    pub(super) fn make_with(
        &self,
        runtime: Runtime,
        policy: Policy,
        SessionOptions { context, tools }: SessionOptions,
        make: impl FnOnce(&Sandbox, &SessionScope) -> Result<Session, SandboxFailure>,
    ) -> Result<SessionResource, SandboxFailure> {
        context.iter().try_for_each(|json| check_json("context", json))?;
        let sandbox = self.sandbox_for(runtime, policy)?;
        self.make(&sandbox, |keeper| {
            let sandbox = self.with_tools(sandbox.clone(), &tools.unwrap_or_default())?;
            let session = make(&sandbox, keeper)?;
            if let Some(json) = &context {
                session.set_variable_json("context", json)?;
            }
            Ok::<_, SandboxFailure>(session)
        })
    }

    /// Performs a call that runs code in a session. The caller must ensure that no other call uses the session.
    pub(super) fn enter<R, E>(
        &self,
        resource: &SessionResource,
        work: impl FnOnce(&Session, &SessionScope) -> Result<R, E>,
    ) -> Result<R, SandboxFailure>
    where
        SandboxFailure: From<E>,
    {
        let (session, keeper) = (resource.session(), resource.keeper());
        let _reservation = self.meter.execution(fuel_of_a_call(session.sandbox()), &keeper.budget)?;
        Ok(work(session, keeper)?)
    }

    /// Performs a call that must work without fuel. The call runs no code, except rollbacks and, on closing, exit
    /// handlers. The caller must ensure that no other call uses the session.
    pub(super) fn call_without_fuel<R, E>(
        &self,
        resource: &SessionResource,
        work: impl FnOnce(&Session) -> Result<R, E>,
    ) -> Result<R, SandboxFailure>
    where
        SandboxFailure: From<E>,
    {
        let session = resource.session();
        let _reservation =
            self.meter.reserve_available(session.sandbox().policy().limits.fuel, &resource.keeper().budget);
        Ok(work(session)?)
    }
}

impl SandboxCtx {
    /// Creates a session with this runtime and policy, and with the tools and the `context` in the options.
    fn make_with(
        &mut self,
        runtime: Runtime,
        policy: Policy,
        options: SessionOptions,
        make: impl FnOnce(&Self, &Sandbox, &SessionScope) -> Result<Session, SandboxFailure>,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        let handle = self.caller.meter.take(QuotaUse::Handle)?;
        let ctx = &*self;
        let session = ctx.caller.make_with(runtime, policy, options, |sandbox, keeper| make(ctx, sandbox, keeper))?;
        self.put(handle, session)
    }

    /// Performs a call that runs code in a session.
    fn enter<R, E>(
        &self,
        handle: &Resource<SessionResource>,
        work: impl FnOnce(&Session, &SessionScope) -> Result<R, E>,
    ) -> Result<R, SandboxFailure>
    where
        SandboxFailure: From<E>,
    {
        let resource = self.get(handle)?;
        resource.wait_until_idle()?;
        self.caller.enter(resource, work)
    }

    /// Performs a call that must work without fuel. The call runs no code, except rollbacks and, on closing, exit
    /// handlers.
    fn call_without_fuel<R, E>(
        &self,
        handle: &Resource<SessionResource>,
        work: impl FnOnce(&Session) -> Result<R, E>,
    ) -> Result<R, SandboxFailure>
    where
        SandboxFailure: From<E>,
    {
        let resource = self.get(handle)?;
        resource.wait_until_idle()?;
        self.caller.call_without_fuel(resource, work)
    }

    /// Performs a call on a session's files.
    fn files_of<R>(
        &self,
        handle: &Resource<SessionResource>,
        work: impl FnOnce(&SessionFiles) -> Result<R, SandboxFailure>,
    ) -> Result<R, SandboxFailure> {
        self.call_without_fuel(handle, |session| work(&session.files()))
    }
}

pub(super) fn fuel_of_a_call(sandbox: &Sandbox) -> u64 {
    sandbox.policy().limits.fuel.saturating_mul(SHARES_OF_A_CALL)
}

impl HostSession for SandboxCtx {
    fn open(
        &mut self,
        runtime: Runtime,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        self.make_with(runtime, policy, options, |_, sandbox, keeper| {
            Ok(sandbox.open_session(glovebox::SessionOptions::default().scope(keeper))?)
        })
    }

    fn resume(
        &mut self,
        runtime: Runtime,
        state: Resource<Bytes>,
        policy: Policy,
        options: SessionOptions,
    ) -> Result<Resource<SessionResource>, SandboxFailure> {
        self.make_with(runtime, policy, options, |ctx, sandbox, keeper| {
            Ok(sandbox.resume(ctx.get(&state)?.as_slice(), ResumeOptions::default().scope(keeper))?)
        })
    }

    fn id(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<String> {
        Ok(self.get(&session)?.session().id().to_owned())
    }

    fn info(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<SessionInfo> {
        Ok(self.get(&session)?.session().info().into())
    }

    fn execute(&mut self, session: Resource<SessionResource>, request: Request) -> Result<Execution, SandboxFailure> {
        request.check_in_session()?;
        let execution = self.enter(&session, |session, keeper| {
            session.run(convert::request(&request).cancel(&keeper.cancel).budget(&keeper.budget))
        })?;
        Ok(execution.into())
    }

    fn start(
        &mut self,
        session: Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        request.check_in_session()?;
        self.start_in_session(&session, request)
    }

    fn get_variable(
        &mut self,
        session: Resource<SessionResource>,
        name: String,
    ) -> Result<Option<GuestValue>, SandboxFailure> {
        Ok(self.enter(&session, |session, _| session.get_variable(&name))?.map(GuestValue::from))
    }

    fn set_variable(
        &mut self,
        session: Resource<SessionResource>,
        name: String,
        json: String,
    ) -> Result<(), SandboxFailure> {
        check_variable_name(&name)?;
        check_json("json", &json)?;
        self.enter(&session, |session, _| session.set_variable_json(&name, &json))
    }

    fn files(&mut self, session: Resource<SessionResource>) -> Result<Resource<Snapshot>, SandboxFailure> {
        let files = self.files_of(&session, |files| files.snapshot().map_err(refused("")))?;
        self.put_files(files)
    }

    fn write_file(
        &mut self,
        session: Resource<SessionResource>,
        path: String,
        bytes: Vec<u8>,
        if_exists: IfExists,
    ) -> Result<(), SandboxFailure> {
        self.files_of(&session, |files| files.write(&path, bytes, if_exists.into()).map_err(refused(&path)))
    }

    fn write_file_from(
        &mut self,
        session: Resource<SessionResource>,
        path: String,
        contents: Resource<Bytes>,
        if_exists: IfExists,
    ) -> Result<(), SandboxFailure> {
        let contents = self.get(&contents)?.as_slice();
        self.files_of(&session, |files| files.write(&path, contents, if_exists.into()).map_err(refused(&path)))
    }

    fn rename_file(
        &mut self,
        session: Resource<SessionResource>,
        from: String,
        to: String,
        if_exists: IfExists,
    ) -> Result<(), SandboxFailure> {
        self.files_of(&session, |files| files.rename(&from, &to, if_exists.into()).map_err(refused(&from)))
    }

    fn delete_file(
        &mut self,
        session: Resource<SessionResource>,
        path: String,
        recursive: bool,
    ) -> Result<(), SandboxFailure> {
        self.files_of(&session, |files| {
            let deleted = if recursive { files.delete_all(&path) } else { files.delete(&path) };
            deleted.map_err(refused(&path))
        })
    }

    fn fork(&mut self, session: Resource<SessionResource>) -> Result<Resource<SessionResource>, SandboxFailure> {
        let handle = self.caller.meter.take(QuotaUse::Handle)?;
        let ctx = &*self;
        let sandbox = ctx.get(&session)?.session().sandbox().clone();
        let fork = ctx.caller.make(&sandbox, |keeper| {
            ctx.call_without_fuel(&session, |session| {
                session.fork_with(glovebox::SessionOptions::default().scope(keeper))
            })
        })?;
        self.put(handle, fork)
    }

    fn checkpoint(&mut self, session: Resource<SessionResource>) -> Result<u64, SandboxFailure> {
        Ok(self.call_without_fuel(&session, Session::checkpoint)?.0)
    }

    fn checkpoints(&mut self, session: Resource<SessionResource>) -> Result<Vec<CheckpointInfo>, SandboxFailure> {
        self.call_without_fuel(&session, convert::checkpoints)
    }

    fn undo(&mut self, session: Resource<SessionResource>) -> Result<u64, SandboxFailure> {
        Ok(self.enter(&session, |session, _| session.undo())?.0)
    }

    fn undo_to(&mut self, session: Resource<SessionResource>, id: u64) -> Result<(), SandboxFailure> {
        self.enter(&session, |session, _| session.undo_to(CheckpointId(id)))
    }

    fn hibernate(&mut self, session: Resource<SessionResource>) -> Result<Resource<Bytes>, SandboxFailure> {
        let (handle, mut bytes) = (self.caller.meter.take(QuotaUse::Handle)?, Bytes::new(&self.caller.meter)?);
        self.call_without_fuel(&session, |session| session.hibernate_to(&HibernateOptions::default(), &mut bytes))?;
        self.put(handle, bytes)
    }

    fn close(&mut self, session: Resource<SessionResource>) -> Result<(), SandboxFailure> {
        // Closing must work even if no fuel remains.
        self.call_without_fuel(&session, Session::close)
    }

    fn drop(&mut self, session: Resource<SessionResource>) -> wasmtime::Result<()> {
        self.take(session).map(drop)
    }
}

/// A session of the component. Clones refer to the same session. Started executions hold clones.
#[expect(unreachable_pub, reason = "the bindings re-export it, some of them from a private module")]
#[derive(Clone)]
pub struct SessionResource {
    session: Session,
    /// The cancellation token and fuel budget of the session.
    keeper: SessionScope,
    steps: Arc<SessionCalls>,
    _share: Arc<QuotaShare>,
}

impl fmt::Debug for SessionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionResource").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The state of a session's calls and of its started execution.
#[derive(Debug, Default)]
struct SessionCalls {
    state: Mutex<SessionCallsState>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct SessionCallsState {
    /// The key of the call in progress, or of the started execution whose end the component has not received.
    stepped: Option<u64>,
    /// `true` while a call or a started execution is using the session.
    is_running: bool,
    last_key: u64,
}

impl SessionCalls {
    fn state(&self) -> MutexGuard<'_, SessionCallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the session as busy until the returned guard is dropped or released.
    fn stepping(self: &Arc<Self>, state: &mut SessionCallsState) -> BusyGuard {
        state.last_key += 1;
        state.stepped = Some(state.last_key);
        BusyGuard { steps: Arc::clone(self), key: state.last_key }
    }

    /// Wakes the waiting calls, which check their conditions again.
    fn wake(&self) {
        // A waiting call holds the lock between its check and its wait, so it cannot miss this notification.
        drop(self.state());
        self.left.notify_all();
    }
}

/// A guard that marks the session as busy until the component has received or dropped the result of the call or
/// execution.
#[derive(Debug)]
pub(super) struct BusyGuard {
    steps: Arc<SessionCalls>,
    key: u64,
}

impl BusyGuard {
    /// Returns a second guard. The mark ends when either guard is dropped or released.
    pub(super) fn second(&self) -> Self {
        Self { steps: Arc::clone(&self.steps), key: self.key }
    }

    /// Removes this guard's mark. Does not affect the mark of a later call.
    pub(super) fn release(&self) {
        let mut state = self.steps.state();
        if state.stepped == Some(self.key) {
            state.stepped = None;
        }
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.release();
    }
}

/// A guard that marks the session as in use. Other calls wait until it is dropped.
#[derive(Debug)]
pub(super) struct SessionUseGuard(Arc<SessionCalls>);

impl Drop for SessionUseGuard {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.left.notify_all();
    }
}

/// The error for a call into a session that another call or a started execution is using.
#[derive(Debug)]
pub(super) struct BusySessionError(pub(super) String);

impl SessionResource {
    pub(super) fn new(session: Session, keeper: SessionScope, share: QuotaShare) -> Self {
        Self { session, keeper, steps: Arc::default(), _share: Arc::new(share) }
    }

    /// Returns the session. Unless the call is allowed during an execution, the caller must first wait until no other
    /// call uses the session.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the session's cancellation token and fuel budget.
    pub(super) fn keeper(&self) -> &SessionScope {
        &self.keeper
    }

    /// Returns the session, which can take a long time to drop. Releases the session's share of the quota immediately,
    /// unless an execution still uses the session.
    pub(super) fn into_session(self) -> Session {
        self.session
    }

    /// Waits until no execution uses the session. Fails while the component steps through an execution, because only
    /// the component can answer that execution's calls.
    pub(super) fn wait_until_idle(&self) -> Result<(), BusySessionError> {
        self.idle_state().map(drop)
    }

    /// Marks the session as busy and in use, for a new execution.
    pub(super) fn step(&self) -> Result<(BusyGuard, SessionUseGuard), BusySessionError> {
        let mut state = self.idle_state()?;
        state.is_running = true;
        Ok((self.steps.stepping(&mut state), SessionUseGuard(Arc::clone(&self.steps))))
    }

    /// Marks the session as busy, for a component that makes several calls at the same time. Does not wait. Fails if
    /// the session is busy.
    pub(super) fn begin_call(&self) -> Result<BusyGuard, BusySessionError> {
        let mut state = self.steps.state();
        if state.stepped.is_some() {
            let id = self.session.id();
            let text = format!("session `{id}` is in use by another call or execution; wait for it to end, or drop it");
            return Err(BusySessionError(text));
        }
        Ok(self.steps.stepping(&mut state))
    }

    /// Waits until a dropped call no longer uses the session, and marks the session as in use. Returns `None` if the
    /// component has dropped this call as well. Calls `is_dropped` again when `cancel` is cancelled.
    pub(super) fn run_call(&self, cancel: &CancelToken, is_dropped: impl Fn() -> bool) -> Option<SessionUseGuard> {
        let steps = Arc::clone(&self.steps);
        let _on_cancel = cancel.on_cancel(move || steps.wake());
        let mut state = self.steps.state();
        loop {
            if is_dropped() {
                return None;
            }
            if !state.is_running {
                state.is_running = true;
                return Some(SessionUseGuard(Arc::clone(&self.steps)));
            }
            state = self.steps.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until a dropped execution has been unwound. Fails while the component steps through an execution.
    fn idle_state(&self) -> Result<MutexGuard<'_, SessionCallsState>, BusySessionError> {
        let mut state = self.steps.state();
        loop {
            if state.stepped.is_some() {
                let id = self.session.id();
                let text = format!(
                    "an execution started in session `{id}` has not ended; call `continue` until it returns `done`, or drop the execution"
                );
                return Err(BusySessionError(text));
            }
            if !state.is_running {
                return Ok(state);
            }
            state = self.steps.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
