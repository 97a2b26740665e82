//! Measures session operations other than execution: checkpoints, forks and hibernation. Also measures executions that
//! alternate randomly between many sessions.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use glovebox::{HibernateOptions, Language, ResumeOptions, Sandbox, Session};

use crate::samples::{Samples, block, timed as timed_execution};

/// Sizes in bytes of the data in the sessions of the cases `checkpoint_*`, in addition to the interpreter's memory.
const CURVE: [(&str, u32); 5] = [
    ("checkpoint_512k", 512 << 10),
    ("checkpoint_1m", 1 << 20),
    ("checkpoint_4m", 4 << 20),
    ("checkpoint_16m", 16 << 20),
    ("checkpoint_64m", 64 << 20),
];

/// The size in bytes of the data in the forked session, in addition to the interpreter's memory.
const FORKED_BYTES: u32 = 1 << 20;

/// The number of runs per turn.
const PER_TURN: usize = 5;

/// The times of all session operations.
#[derive(Debug, Default)]
pub(crate) struct SessionSamples {
    pub(crate) checkpoint: Samples,
    pub(crate) fork: Samples,
    pub(crate) hibernate: Samples,
    pub(crate) resume: Samples,
    /// The times of `checkpoint`, by the size of the session's data.
    pub(crate) curve: Vec<(&'static str, Samples)>,
}

/// Two sessions with equal contents. Only `saving` takes a checkpoint before each execution.
#[derive(Debug)]
struct Pair {
    saving: Session,
    plain: Session,
}

impl Pair {
    /// Opens both sessions, each with `bytes` bytes of nonzero data.
    fn holding(sandbox: &Sandbox, saving: &Sandbox, bytes: u32) -> anyhow::Result<Self> {
        Ok(Self { saving: holding(saving, bytes)?, plain: holding(sandbox, bytes)? })
    }

    /// Measures how much longer an execution takes with a checkpoint, which reads the page map and compares all pages
    /// ever written.
    fn checkpoint(&self, source: &str) -> anyhow::Result<Duration> {
        let plain = timed(|| Ok(self.plain.execute(source)?))?;
        Ok(timed(|| Ok(self.saving.execute(source)?))?.saturating_sub(plain))
    }
}

/// The session operations that alternate with the other cases.
#[derive(Debug)]
pub(crate) struct SessionCases<'a> {
    sandbox: &'a Sandbox,
    source: &'a str,
    small: Pair,
    forked: Session,
}

impl<'a> SessionCases<'a> {
    pub(crate) fn open(sandbox: &'a Sandbox, saving: &Sandbox, source: &'a str) -> anyhow::Result<Self> {
        let small = Pair::holding(sandbox, saving, 0)?;
        Ok(Self { sandbox, source, small, forked: holding(sandbox, FORKED_BYTES)? })
    }

    /// Measures every session operation except the curve.
    pub(crate) fn turn(&self, into: &mut SessionSamples) -> anyhow::Result<()> {
        block(&mut into.checkpoint, PER_TURN, || self.small.checkpoint(self.source))?;
        block(&mut into.fork, PER_TURN, || timed(|| Ok(self.forked.fork()?)))?;
        let options = HibernateOptions::default();
        block(&mut into.hibernate, PER_TURN, || {
            self.small.plain.execute(self.source)?;
            timed(|| Ok(self.small.plain.hibernate(&options)?))
        })?;
        let state = self.small.plain.hibernate(&options)?;
        block(&mut into.resume, PER_TURN, || timed(|| Ok(self.sandbox.resume(&state, ResumeOptions::default())?)))
    }
}

/// Measures checkpoints of increasingly large sessions. Only one pair is open at a time, to limit memory.
pub(crate) fn curve(
    sandbox: &Sandbox,
    saving: &Sandbox,
    source: &str,
    turns: u64,
) -> anyhow::Result<Vec<(&'static str, Samples)>> {
    let mut curve = Vec::new();
    for (case, bytes) in CURVE {
        let pair = Pair::holding(sandbox, saving, bytes)?;
        let mut samples = Samples::default();
        for _ in 0..turns {
            samples.push(pair.checkpoint(source)?);
        }
        curve.push((case, samples));
    }
    Ok(curve)
}

/// Times an operation, excluding the drop of its result.
fn timed<T>(make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let result = make()?;
    let took = start.elapsed();
    drop(result);
    Ok(took)
}

/// Opens a session with `bytes` bytes of nonzero data.
fn holding(sandbox: &Sandbox, bytes: u32) -> anyhow::Result<Session> {
    let session = sandbox.session()?;
    let held = session.execute(&match sandbox.language() {
        Language::Python => format!("held = bytearray(b'\\xa5') * {bytes}"),
        Language::JavaScript => format!("globalThis.held = new Uint8Array({bytes}).fill(0xa5)"),
    })?;
    ensure!(held.is_success(), "cannot allocate {bytes} bytes in a session: {:?}", held.outcome);
    Ok(session)
}

/// The time and memory of many sessions.
#[derive(Debug, Default)]
pub(crate) struct ManySessions {
    /// The times of executions, each in a random session.
    pub(crate) samples: Samples,
    pub(crate) count: u64,
    /// Total anonymous memory of all sessions after their executions, in bytes.
    pub(crate) bytes: u64,
}

impl ManySessions {
    /// Opens `count` sessions, executes the script once in each, and then measures `executions` in random sessions.
    pub(crate) fn measure(sandbox: &Sandbox, source: &str, count: u64, executions: u64) -> anyhow::Result<Self> {
        let before = anonymous_bytes();
        let mut sessions = Vec::new();
        for _ in 0..count {
            let session = sandbox.session()?;
            timed_execution(|| session.execute(source))?;
            sessions.push(session);
        }
        let mut samples = Samples::default();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..executions {
            let session = any(&sessions, &mut random)?;
            samples.push(timed_execution(|| session.execute(source))?);
        }
        let bytes = anonymous_bytes().saturating_sub(before);
        sessions.into_iter().try_for_each(|session| session.close())?;
        Ok(Self { samples, count, bytes })
    }
}

/// Returns a random session, chosen with Marsaglia's xorshift.
fn any<'a>(sessions: &'a [Session], random: &mut u64) -> anyhow::Result<&'a Session> {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let count = sessions.len() as u64;
    let place = usize::try_from(*random % count.max(1)).unwrap_or(0);
    sessions.get(place).context("no session is open")
}

/// Returns this process's anonymous memory in bytes, or 0 if the system does not report it.
fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
