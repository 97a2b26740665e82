//! Starts a worker, reads its reports, and restarts it when it ends.

use std::{
    io::{self, BufReader, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Handle;

use super::{
    WorkersConfig,
    connections::Connections,
    serve::Report,
    slot::{Live, WorkerSlot},
};

/// Minimum and maximum delay between the end of a worker and the start of the next one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// A worker that served longer than this did not fail at its start, so the next delay is the minimum again.
const STEADY: Duration = Duration::from_secs(30);
/// Timeout for a worker to end after it has closed its standard output.
const LAST: Duration = Duration::from_secs(2);
/// Interval of health checks, and the timeout of each.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Keeps a worker running in this slot until the service ends. The thread must live as long, because the kernel kills a
/// worker when the thread that started it ends.
pub(super) fn supervise(slot: &WorkerSlot, index: usize, config: &WorkersConfig, runtime: &Handle) {
    let mut pause = PAUSES.0;
    while !slot.has_ended() {
        let begun = Instant::now();
        let failure = match run(slot, config, runtime) {
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

/// Runs one process from start to end. Returns the reason for its end.
fn run(slot: &WorkerSlot, config: &WorkersConfig, runtime: &Handle) -> io::Result<String> {
    let (ours, theirs) = UnixStream::pair()?;
    // The command owns the other end of the pair, and is dropped after the child has inherited it.
    let mut child = Command::new(&config.command.program)
        .args(&config.command.args)
        .env_clear()
        .envs(config.command.env.iter().map(|(name, value)| (name, value)))
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .spawn()?;
    let ready =
        child.stdout.take().ok_or_else(|| io::Error::other("the process has no standard output")).and_then(|out| {
            ours.set_write_timeout(Some(config.start_time))?;
            (&ours).write_all(format!("{}\n", config.orders).as_bytes())?;
            begin(BufReader::new(out), config.start_time)
        });
    let (mut reports, confinement) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let _ = child.kill();
            let status = child.wait()?;
            return Ok(format!("{error} ({status})"));
        }
    };
    let live = Arc::new(Live::new(Connections::new(ours)?, child, confinement));
    runtime.spawn(watch(Arc::downgrade(&live)));
    for (name, reason) in live.confinement.gaps() {
        tracing::warn!(target: "glovebox", reason, "{name} is not fully enforced for workers");
    }
    if !slot.ready(&live) {
        live.kill();
    }
    let broken = listen(&mut reports, &live);
    if broken.is_err() {
        live.kill();
    }
    live.gone();
    // The process has closed its standard output and should end soon.
    end(&live, LAST);
    let mut child = live.child.lock().unwrap_or_else(PoisonError::into_inner);
    let status = child.wait()?;
    Ok(match broken {
        Ok(()) => status.to_string(),
        Err(error) => format!("{error} ({status})"),
    })
}

/// Kills a worker that does not respond.
async fn watch(live: Weak<Live>) {
    loop {
        tokio::time::sleep(PING.0).await;
        let Some(live) = live.upgrade() else { return };
        if tokio::time::timeout(PING.1, live.answers()).await.is_err() {
            tracing::error!(target: "glovebox", "a worker does not respond and is being killed");
            live.kill();
        }
    }
}

/// Waits until the worker is ready.
fn begin(
    mut reports: BufReader<ChildStdout>,
    time: Duration,
) -> io::Result<(BufReader<ChildStdout>, super::Confinement)> {
    let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(reports.get_ref(), PollFlags::IN)];
    if poll(&mut polled, Some(&timeout))? == 0 {
        return Err(io::Error::other(format!("the worker was not ready within {} s", time.as_secs())));
    }
    match Report::read(&mut reports)? {
        Some(Report::Ready { confinement }) => Ok((reports, confinement)),
        Some(_) => Err(io::Error::other("the worker's first report is not `ready`")),
        None => Err(io::Error::other("the worker ended before it was ready")),
    }
}

/// Processes reports until the worker closes its standard output.
fn listen(reports: &mut BufReader<ChildStdout>, live: &Live) -> io::Result<()> {
    while let Some(report) = Report::read(reports)? {
        match report {
            Report::Ready { .. } => {}
            Report::Done { request, done } => live.done(request, done),
            Report::Sessions { count, bytes } => {
                *live.sessions.lock().unwrap_or_else(PoisonError::into_inner) = (count, bytes);
            }
        }
    }
    Ok(())
}

/// Waits for a worker to end, and kills it after `time`.
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
