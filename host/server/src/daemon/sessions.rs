//! Sessions of one client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glovebox_sessions::SessionId;
use serde_json::{json, value::RawValue};

use super::{
    Daemon,
    params::{self, Fork, Initialize, Target},
    peer::Peer,
    rpc::{self, Answer, REFUSED, RpcError},
    slot::{Slot, State, Turn, Waiting, not_initialized},
    worker::Worker,
};

/// Protocol version that `initialize` and `ping` report.
pub(super) const PROTOCOL: u32 = 1;

/// The sessions of one client, in the order they were opened.
pub(super) struct ClientSessions {
    daemon: Daemon,
    peer: Arc<Peer>,
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl ClientSessions {
    pub(super) fn new(daemon: &Daemon, peer: &Arc<Peer>) -> Self {
        Self { daemon: daemon.clone(), peer: Arc::clone(peer), slots: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends idle sessions. Returns the number of remaining sessions.
    pub(super) fn end_idle(&self) -> usize {
        let idle = self.daemon.0.config.idle;
        let mut slots = self.slots();
        slots.retain(|slot| !slot.end_if_idle(idle));
        slots.len()
    }

    /// Removes a session from the list.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        self.slots().retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Returns the session that `params` names, or else the session that was opened last.
    pub(super) fn meant(&self, params: Option<&RawValue>) -> Result<Arc<Slot>, RpcError> {
        let Target { session } = match params {
            Some(params) if params.get().starts_with('{') => params::read(Some(params))?,
            _ => Target::default(),
        };
        let slots = self.slots();
        let Some(id) = session else { return slots.last().cloned().ok_or_else(not_initialized) };
        slots.iter().find(|slot| slot.id() == Some(&id)).cloned().ok_or_else(|| {
            let message = format!(
                "this connection has no session `{}`: it was ended, was idle for too long, or never existed",
                glovebox::escaped(&id)
            );
            RpcError::named(REFUSED, "session-ended", message)
        })
    }

    /// Reserves a slot for a new session, and its first turn. Fails if the connection or the daemon has too many
    /// sessions.
    pub(super) async fn place(&self) -> Result<(Arc<Slot>, Waiting), RpcError> {
        let config = &self.daemon.0.config;
        let full = |most: usize, whose: &str| {
            let message = format!("the limit of {most} sessions {whose} is reached; destroy one first");
            RpcError::named(REFUSED, "quota-exceeded", message)
        };
        if self.end_idle() >= config.connection_sessions {
            return Err(full(config.connection_sessions, "of this connection"));
        }
        let place = Arc::clone(&self.daemon.0.sessions).try_acquire_owned();
        let slot = Slot::new(place.map_err(|_| full(config.sessions, "of this daemon"))?);
        let waiting = slot.line_up().await;
        self.slots().push(Arc::clone(&slot));
        Ok((slot, waiting))
    }

    /// Opens a session in a reserved slot.
    pub(super) async fn initialize(&self, slot: &Slot, waiting: Waiting, params: Option<&RawValue>) -> Answer {
        let turn = waiting.turn().await;
        let asked: Initialize = params::read(params)?;
        let worker = self.daemon.0.workers.get(asked).await?;
        self.opened(slot, turn, worker)
    }

    /// Forks a session into a reserved slot.
    pub(super) async fn fork(
        &self,
        mut original: Turn,
        slot: &Slot,
        waiting: Waiting,
        params: Option<&RawValue>,
    ) -> Answer {
        let turn = waiting.turn().await;
        let Fork { context, .. } = params::read(params)?;
        let context = context.map(params::json_text).transpose()?;
        let original = original.worker()?;
        let session = original.open().await?.fork().await?;
        if let Some(context) = &context {
            session.set_context(context.clone()).await?;
        }
        let worker = Worker {
            sandbox: original.sandbox.clone(),
            session: Some(session),
            router: Arc::clone(&original.router),
            context: context.or_else(|| original.context.clone()),
            held: Arc::clone(&original.held),
        };
        self.opened(slot, turn, worker)
    }

    /// Puts a new session into its slot, and returns the answer that describes it.
    fn opened(&self, slot: &Slot, mut turn: Turn, worker: Worker) -> Answer {
        worker.router.connect(&self.peer);
        let id = match &worker.session {
            Some(session) => session.id().to_owned(),
            None => SessionId::random().to_string(),
        };
        slot.named(&id);
        let answer = json!({
            "session": id,
            "language": worker.sandbox.language().name(),
            "runtime": worker.sandbox.runtime_name(),
            "version": worker.sandbox.version(),
            "protocol": PROTOCOL,
        });
        *turn = State::Open(worker);
        rpc::result(&answer)
    }
}
