//! Starts the worker processes of a service, checks their health, and restarts them.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox_sessions::SessionId;
use serde::Serialize;
use tokio::{runtime::Handle, sync::watch};
use utoipa::ToSchema;

use super::{
    WorkersConfig,
    peer::Peer,
    protocol::ToWorker,
    relay::ServerSide,
    slot::{LiveWorker, WorkerSlot},
};
use crate::{Service, ServiceError};

/// The worker processes of a service. The name of a session determines its worker. Other requests go to the worker with
/// the fewest requests in progress.
pub(crate) struct Workers {
    slots: Vec<Arc<WorkerSlot>>,
    changed: watch::Receiver<u64>,
    end_time: Duration,
    /// The number for the next execution.
    next: AtomicU64,
}

/// The worker that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerChoice {
    Any,
    /// The worker at this index.
    Number(usize),
}

/// The state of the workers, as `/v1/info` shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkersState {
    /// Number of workers.
    count: usize,
    /// Number of workers that are ready.
    ready: usize,
    /// Number of workers that were started to replace workers that ended.
    restarts: u64,
    /// The protections around each worker: `resource_limits`, `no_new_privileges`, `landlock` and `seccomp`. Each is
    /// `on`, or `partly` or `off` with the reason. `null` while no worker is ready.
    #[schema(value_type = Option<serde_json::Value>)]
    confinement: Option<super::Confinement>,
}

impl Workers {
    /// Starts the workers and waits until all of them are ready.
    pub(crate) async fn start(config: WorkersConfig, service: &Service) -> Result<Self, ServiceError> {
        let (sender, changed) = watch::channel(0);
        let end_time = config.end_time;
        let slots: Vec<_> = (0..config.count).map(|_| Arc::new(WorkerSlot::new(sender.clone()))).collect();
        let config = Arc::new(config);
        for (index, slot) in slots.iter().enumerate() {
            let (slot, config, runtime) = (Arc::clone(slot), Arc::clone(&config), Handle::current());
            let service = service.clone();
            thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || supervise(&slot, index, &config, &service, &runtime))
                .map_err(|error| ServiceError::Worker(error.to_string()))?;
        }
        let workers = Self { slots, changed, end_time, next: AtomicU64::new(0) };
        let mut changed = workers.changed.clone();
        while workers.slots.iter().any(|slot| slot.live().is_none()) {
            let failure = workers.slots.iter().find_map(|slot| slot.failure.lock().clone());
            if let Some(failure) = failure {
                workers.end().await;
                return Err(ServiceError::Worker(failure));
            }
            let _ = changed.changed().await;
        }
        Ok(workers)
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn next_execution(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the index of a session's worker. Sessions whose names are equal up to the first dot share a worker, for
    /// example the contexts of an E2B sandbox.
    pub(crate) fn worker_of(&self, tenant: &str, id: &SessionId) -> usize {
        // The hash has no secret key, so it is stable across restarts. A tenant that chooses colliding names only
        // places its own sessions on a single worker.
        let mut hasher = DefaultHasher::new();
        (tenant, id.as_str().split('.').next()).hash(&mut hasher);
        let count = self.slots.len().max(1) as u64;
        usize::try_from(hasher.finish() % count).unwrap_or_default()
    }

    /// Waits up to `wait` until the chosen worker is ready.
    pub(crate) async fn ready(&self, chosen: WorkerChoice, wait: Duration) -> Result<Arc<LiveWorker>, ServiceError> {
        let mut changed = self.changed.clone();
        let found = async {
            loop {
                changed.mark_unchanged();
                if let Some(live) = self.choose(chosen) {
                    return live;
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(wait, found).await.map_err(|_| ServiceError::NoWorker)
    }

    /// Returns the chosen worker if it is ready.
    pub(super) fn choose(&self, chosen: WorkerChoice) -> Option<Arc<LiveWorker>> {
        match chosen {
            WorkerChoice::Number(index) => self.slots.get(index)?.live(),
            WorkerChoice::Any => self.slots.iter().filter_map(|slot| slot.live()).min_by_key(|live| live.load()),
        }
    }

    /// Returns the number of ready workers and the number of restarts.
    pub(crate) fn ready_and_restarts(&self) -> (usize, u64) {
        let ready = self.slots.iter().filter(|slot| slot.live().is_some()).count();
        (ready, self.slots.iter().map(|slot| slot.restarts.load(Ordering::Relaxed)).sum())
    }

    pub(crate) fn state(&self) -> WorkersState {
        let (ready, restarts) = self.ready_and_restarts();
        let live = self.slots.iter().find_map(|slot| slot.live());
        WorkersState {
            count: self.slots.len(),
            ready,
            restarts,
            confinement: live.and_then(|live| live.confinement().cloned()),
        }
    }

    /// Returns the number of sessions in the workers' memory and the bytes that they occupy.
    pub(crate) fn session_usage(&self) -> (u64, u64) {
        let live = self.slots.iter().filter_map(|slot| slot.live());
        live.map(|live| *live.sessions.lock()).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Stops all workers. Each worker saves its sessions first.
    pub(crate) async fn end(&self) {
        let ending: Vec<_> = self.slots.iter().filter_map(|slot| slot.end()).collect();
        let begun = Instant::now();
        let time = self.end_time;
        let mut saving = tokio::task::JoinSet::new();
        for live in ending.iter().cloned() {
            saving.spawn(async move { live.peer.call::<()>(&ToWorker::End, Vec::new()).await.map(drop) });
        }
        let _ = tokio::time::timeout(time, saving.join_all()).await;
        let _ = tokio::task::spawn_blocking(move || {
            for live in ending {
                // A worker exits when its socket is closed.
                live.peer.close();
                end(&live, time.saturating_sub(begun.elapsed()));
            }
        })
        .await;
    }
}

/// Minimum and maximum delay between the end of a worker and the start of its replacement.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// Running time after which a worker is considered stable, which resets the next delay to the minimum.
const STEADY: Duration = Duration::from_secs(30);
/// Maximum time for a worker to exit after it has closed its socket.
const LAST: Duration = Duration::from_secs(2);
/// The interval between health checks, and the timeout of each.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Keeps a worker running in the slot until the slot is closed. Needs a dedicated thread, because the kernel kills a
/// worker when the thread that started it ends.
fn supervise(slot: &WorkerSlot, index: usize, config: &WorkersConfig, service: &Service, runtime: &Handle) {
    let mut pause = PAUSES.0;
    while !slot.has_ended() {
        let begun = Instant::now();
        let failure = match run(slot, config, service, runtime) {
            Ok(how) => how,
            Err(error) => format!("the process could not be started: {error}"),
        };
        slot.remove_ended(failure.clone());
        if slot.has_ended() {
            return;
        }
        tracing::error!(target: "glovebox", worker = index, reason = failure, "a worker ended and is being restarted");
        slot.restarts.fetch_add(1, Ordering::Relaxed);
        if begun.elapsed() > STEADY {
            pause = PAUSES.0;
        }
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Starts a worker and waits until it ends. Returns the reason why it ended.
fn run(slot: &WorkerSlot, config: &WorkersConfig, service: &Service, runtime: &Handle) -> io::Result<String> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(config.start_time))?;
    // The command owns the child's end of the socket pair. Dropping the command closes it in this process.
    let mut child = Command::new(&config.command.program)
        .args(&config.command.args)
        .env_clear()
        .envs(config.command.env.iter().map(|(name, value)| (name, value)))
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    let begun =
        (&ours).write_all(format!("{}\n", config.config_json).as_bytes()).and_then(|()| ours.set_nonblocking(true));
    if let Err(error) = begun {
        let _ = child.kill();
        return Ok(format!("{error} ({})", child.wait()?));
    }
    let live = runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(ours)?;
        Ok::<_, io::Error>(Arc::new_cyclic(|live| {
            let side = ServerSide::new(service, Weak::clone(live));
            LiveWorker::new(Peer::start(stream, Arc::new(side)), child)
        }))
    })?;
    let broken = runtime.block_on(async {
        tokio::select! {
            () = live.became_ready.notified() => None,
            () = live.peer.wait_gone() => Some("the worker ended before it was ready".to_owned()),
            () = tokio::time::sleep(config.start_time) => {
                Some(format!("the worker was not ready within {} s", config.start_time.as_secs()))
            }
        }
    });
    if broken.is_none() {
        runtime.spawn(check_health(Arc::downgrade(&live)));
        for (name, reason) in live.confinement().into_iter().flat_map(super::Confinement::gaps) {
            tracing::warn!(target: "glovebox", reason, "the protection `{name}` is not fully enforced for workers");
        }
        if !slot.ready(&live) {
            live.kill();
        }
        runtime.block_on(live.peer.wait_gone());
        // The process has closed its socket and should exit soon.
        end(&live, LAST);
    }
    live.kill();
    let status = live.child.lock().wait()?;
    Ok(match broken {
        None => status.to_string(),
        Some(reason) => format!("{reason} ({status})"),
    })
}

/// Kills a worker that does not answer health checks.
async fn check_health(live: Weak<LiveWorker>) {
    loop {
        tokio::time::sleep(PING.0).await;
        let Some(live) = live.upgrade() else { return };
        let answers = live.peer.call::<()>(&ToWorker::Ping, Vec::new());
        match tokio::time::timeout(PING.1, answers).await {
            Ok(Ok(_)) => {}
            // The worker has already ended.
            Ok(Err(_)) => return,
            Err(_) => {
                tracing::error!(target: "glovebox", "a worker is not responding and is being killed");
                live.kill();
            }
        }
    }
}

/// Waits for a worker to exit. Kills it after `time`.
fn end(live: &LiveWorker, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        let ended = has_ended(&mut live.child.lock());
        if ended {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    live.kill();
}

fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}
