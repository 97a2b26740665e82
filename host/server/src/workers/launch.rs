//! Starts a worker, and restarts it when its process ends.

use std::{
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{
    WorkersConfig,
    peer::Peer,
    protocol::ToWorker,
    relay::ServerSide,
    slot::{Live, WorkerSlot},
};
use crate::Service;

/// Minimum and maximum delay between the end of a worker and the start of its replacement.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// A worker that ran longer than this is considered stable. The next delay is the minimum again.
const STEADY: Duration = Duration::from_secs(30);
/// Maximum time between a worker closing its socket and its exit.
const LAST: Duration = Duration::from_secs(2);
/// The interval between health checks, and the timeout of each.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Keeps a worker running in the slot until the slot is closed. Needs a dedicated thread, because the kernel kills a
/// worker when the thread that started it ends.
pub(super) fn supervise(slot: &WorkerSlot, index: usize, config: &WorkersConfig, service: &Service, runtime: &Handle) {
    let mut pause = PAUSES.0;
    while !slot.has_ended() {
        let begun = Instant::now();
        let failure = match run(slot, config, service, runtime) {
            Ok(how) => how,
            Err(error) => format!("the process could not be started: {error}"),
        };
        slot.lost(failure.clone());
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

/// Starts a worker and waits for its end. Returns the reason.
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
    let begun = (&ours).write_all(format!("{}\n", config.orders).as_bytes()).and_then(|()| ours.set_nonblocking(true));
    if let Err(error) = begun {
        let _ = child.kill();
        return Ok(format!("{error} ({})", child.wait()?));
    }
    let live = runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(ours)?;
        Ok::<_, io::Error>(Arc::new_cyclic(|live| {
            let side = ServerSide::new(service, Weak::clone(live));
            Live::new(Peer::start(stream, Arc::new(side)), child)
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
        runtime.spawn(watch(Arc::downgrade(&live)));
        for (name, reason) in live.confinement().into_iter().flat_map(super::Confinement::gaps) {
            tracing::warn!(target: "glovebox", reason, "{name} is not fully enforced for workers");
        }
        if !slot.ready(&live) {
            live.kill();
        }
        runtime.block_on(live.peer.wait_gone());
        // The process has closed its socket and should exit soon.
        end(&live, LAST);
    }
    live.kill();
    let status = live.child.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
    Ok(match broken {
        None => status.to_string(),
        Some(reason) => format!("{reason} ({status})"),
    })
}

/// Kills a worker that does not answer health checks.
async fn watch(live: Weak<Live>) {
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
pub(super) fn end(live: &Live, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        let ended = has_ended(&mut live.child.lock().unwrap_or_else(PoisonError::into_inner));
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
