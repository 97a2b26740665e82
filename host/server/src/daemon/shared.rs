//! State that all connections share.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Instant,
};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{config::DaemonConfig, worker::Workers};
use crate::{Service, Tenant, byte_budget::ByteBudget};

/// A daemon with in-memory sessions for any number of connections. Cheap to clone.
#[derive(Clone)]
pub struct Daemon(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) service: Service,
    pub(super) config: DaemonConfig,
    pub(super) workers: Arc<Workers>,
    pub(super) incoming: ByteBudget,
    pub(super) outgoing: ByteBudget,
    pub(super) connections: Arc<Semaphore>,
    pub(super) sessions: Arc<Semaphore>,
    pub(super) connected: AtomicUsize,
    pub(super) begun: Instant,
    pub(super) stop: CancellationToken,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Creates a daemon whose clients share the tenant's grant. Must be called on a Tokio runtime, where it starts
    /// interpreters ahead.
    #[must_use]
    pub fn new(tenant: &Tenant, config: DaemonConfig) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)));
        let budget = || ByteBudget::new(config.messages_bytes, config.message_time, []);
        let daemon = Self(Arc::new(Shared {
            service: tenant.service().clone(),
            config,
            workers: Workers::new(tenant.clone(), &config),
            incoming: budget(),
            outgoing: budget(),
            connections: permits(config.connections),
            sessions: permits(config.sessions),
            connected: AtomicUsize::new(0),
            begun: Instant::now(),
            stop: CancellationToken::new(),
        }));
        daemon.0.workers.fill();
        daemon
    }

    /// Stops accepting connections. The daemon ends once all running requests have ended; [`Service::drain`] bounds the
    /// time for that.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until the daemon is stopped, by [`stop`](Self::stop) or by a client's `shutdown`.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }
}
