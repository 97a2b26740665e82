//! A pool of interpreters that are started before clients need them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use glovebox::{JsonText, Language, SessionOptions};
use tokio::sync::Semaphore;

use super::{
    DaemonConfig,
    client_calls::Router,
    message::{REFUSED, RpcError},
    params::{Initialize, Query},
};
use crate::{
    NewSandbox, OwnSandbox, OwnSession, Tenant,
    byte_budget::{ByteBudget, HeldBytes},
};

/// A client's session: a sandbox, and an interpreter once a method needs one or the client requests it.
#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) sandbox: OwnSandbox,
    pub(super) session: Option<OwnSession>,
    pub(super) router: Arc<Router>,
    pub(super) context: Option<JsonText>,
    /// The memory charged for the initial files, the context, the policy and the tools.
    pub(super) held: Arc<HeldBytes>,
}

/// Maximum number of requests whose policies and tools are parsed simultaneously. Parsed values occupy many times the
/// memory of their text.
const READ_AT_ONCE: usize = 4;

/// A pool of interpreters that are started before clients need them.
#[derive(Debug)]
pub(super) struct InterpreterPool {
    tenant: Tenant,
    wanted: usize,
    ready: Mutex<Vec<ClientSession>>,
    is_filling: AtomicBool,
    initial: ByteBudget,
    reading: Semaphore,
}

/// Clears `is_filling` on drop.
struct Filling<'a>(&'a AtomicBool);

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl InterpreterPool {
    pub(super) fn new(tenant: Tenant, config: &DaemonConfig) -> Arc<Self> {
        Arc::new(Self {
            tenant,
            wanted: config.ready,
            ready: Mutex::default(),
            is_filling: AtomicBool::new(false),
            initial: ByteBudget::new(config.initial_bytes, config.message_time, []),
            reading: Semaphore::new(READ_AT_ONCE),
        })
    }

    /// Returns the number of idle interpreters in the pool.
    pub(super) fn ready(&self) -> usize {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Fills the pool in the background, one interpreter at a time.
    pub(super) fn fill(self: &Arc<Self>) {
        if self.ready() >= self.wanted || self.is_filling.swap(true, Ordering::SeqCst) {
            return;
        }
        let workers = Arc::clone(self);
        tokio::spawn(async move {
            let _filling = Filling(&workers.is_filling);
            while workers.ready() < workers.wanted && !workers.tenant.service().is_draining() {
                // Ignore the error: the next client that needs an interpreter encounters it again.
                let Ok(worker) = workers.make(Initialize::default()).await else { return };
                workers.ready.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
            }
        });
    }

    /// Returns a session for a client: one from the pool if it satisfies the request, otherwise a new one.
    pub(super) async fn get(self: &Arc<Self>, mut asked: Initialize) -> Result<ClientSession, RpcError> {
        if !asked.is_usual() {
            return self.make(asked).await;
        }
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop();
        self.fill();
        let Some(mut worker) = ready else { return self.make(asked).await };
        if let (Some(context), Some(session)) = (asked.context()?, &worker.session) {
            worker.held = self.hold(context.as_str().len())?;
            session.set_context(context.clone()).await?;
            worker.context = Some(context);
        }
        Ok(worker)
    }

    fn hold(&self, bytes: usize) -> Result<Arc<HeldBytes>, RpcError> {
        let held = self.initial.try_room(None, bytes).map(Arc::new);
        held.map_err(|_| {
            let message = "the daemon's memory for the files, contexts, policies and tools of sessions is full; destroy a \
                           session first";
            RpcError::named(REFUSED, "quota-exceeded", message)
        })
    }

    async fn make(&self, mut asked: Initialize) -> Result<ClientSession, RpcError> {
        let router = Arc::new(Router::default());
        let (context, files) = (asked.context()?, asked.files());
        let bytes = files.iter().map(|(path, bytes)| path.len() + bytes.len()).sum::<usize>();
        let bytes = bytes + context.as_ref().map_or(0, |context| context.as_str().len());
        let held = self.hold(bytes + asked.parsed_bytes()?)?;
        let reading = self.reading.acquire().await;
        let policy = asked.policy()?;
        let queries = asked.queries.as_deref().unwrap_or(&[Query::Llm, Query::Rlm]);
        let tools = router.tools(queries, asked.tools.as_deref().unwrap_or_default())?;
        let language = match (asked.language, &asked.runtime) {
            (None, None) => Some(Language::Python),
            (language, _) => language,
        };
        let runtime = asked.runtime.take();
        let sandbox = self.tenant.own_sandbox(NewSandbox { language, runtime, files, policy, tools }).await?;
        drop(reading);
        let mut worker = ClientSession { sandbox, session: None, router, context, held };
        match asked.state.take() {
            Some(state) => {
                let session = worker.sandbox.resume(state.0).await?;
                worker.router.name(session.id());
                worker.session = Some(session);
            }
            None if asked.open != Some(false) => drop(worker.open().await?),
            None => {}
        }
        Ok(worker)
    }
}

impl ClientSession {
    /// Returns the interpreter. Starts it on the first call.
    pub(super) async fn open(&mut self) -> Result<OwnSession, RpcError> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let mut options = SessionOptions::default();
        options.context.clone_from(&self.context);
        let session = self.sandbox.open(options).await?;
        self.router.name(session.id());
        self.session = Some(session.clone());
        Ok(session)
    }
}
