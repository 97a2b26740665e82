//! Starting a worker, listening to it, and starting another when it ends.

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
    report::Report,
    slot::{Live, Slot},
};

/// The shortest and the longest time between the end of a worker and the start of the next.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// A worker that served so long did not fail at its start: the next one is started at once.
const STEADY: Duration = Duration::from_secs(30);
/// How long a worker may take to end once it has closed its standard output.
const LAST: Duration = Duration::from_secs(2);
/// How often a worker is asked whether it is there, and for how long it may not answer.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Has a worker in this place until the service ends. The thread lives as long: the kernel ends a worker with the thread that started it.
pub(super) fn supervise(slot: &Slot, index: usize, config: &WorkersConfig, runtime: &Handle) {
    let mut pause = PAUSES.0;
    while !slot.has_ended() {
        let begun = Instant::now();
        let failure = match run(slot, config, runtime) {
            Ok(how) => how,
            Err(error) => format!("it could not be started: {error}"),
        };
        slot.lost(failure.clone());
        if slot.has_ended() {
            return;
        }
        tracing::error!(target: "glovebox", worker = index, reason = failure, "a worker has ended; another is started");
        slot.restarts.fetch_add(1, Ordering::Relaxed);
        if begun.elapsed() > STEADY {
            pause = PAUSES.0;
        }
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// One process, from its start to its end; says how it ended.
fn run(slot: &Slot, config: &WorkersConfig, runtime: &Handle) -> io::Result<String> {
    let (ours, theirs) = UnixStream::pair()?;
    // The command has its end of the sockets: it is dropped once the child has it.
    let mut child = Command::new(&config.command.program)
        .args(&config.command.args)
        .env_clear()
        .envs(config.command.env.iter().map(|(name, value)| (name, value)))
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .spawn()?;
    let ready = child.stdout.take().ok_or_else(|| io::Error::other("it has no standard output")).and_then(|out| {
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
        tracing::warn!(target: "glovebox", reason, "workers are not held by {name}");
    }
    if !slot.ready(&live) {
        live.kill();
    }
    let broken = listen(&mut reports, &live);
    if broken.is_err() {
        live.kill();
    }
    live.gone();
    // It has nothing more to say, and is to be gone soon.
    end(&live, LAST);
    let mut child = live.child.lock().unwrap_or_else(PoisonError::into_inner);
    let status = child.wait()?;
    Ok(match broken {
        Ok(()) => status.to_string(),
        Err(error) => format!("{error} ({status})"),
    })
}

/// Ends one that is there and does not answer.
async fn watch(live: Weak<Live>) {
    loop {
        tokio::time::sleep(PING.0).await;
        let Some(live) = live.upgrade() else { return };
        if tokio::time::timeout(PING.1, live.answers()).await.is_err() {
            tracing::error!(target: "glovebox", "a worker does not answer, and is ended");
            live.kill();
        }
    }
}

/// Waits until it serves.
fn begin(
    mut reports: BufReader<ChildStdout>,
    time: Duration,
) -> io::Result<(BufReader<ChildStdout>, super::Confinement)> {
    let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(reports.get_ref(), PollFlags::IN)];
    if poll(&mut polled, Some(&timeout))? == 0 {
        return Err(io::Error::other(format!("it did not serve within {} s", time.as_secs())));
    }
    match Report::read(&mut reports)? {
        Some(Report::Ready { confinement }) => Ok((reports, confinement)),
        Some(_) => Err(io::Error::other("it reported something else than that it serves")),
        None => Err(io::Error::other("it ended before it served")),
    }
}

/// Takes what it reports until it has nothing more to say.
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

/// Ends one that does not end by itself.
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
