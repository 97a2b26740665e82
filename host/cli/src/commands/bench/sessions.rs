//! What can be done with a session beside executing in it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use glovebox::{HibernateOptions, Language, ResumeOptions, Sandbox, Session};

use super::samples::{Samples, block};

/// A session's private memory in the cases `checkpoint_*`, in bytes beyond what the interpreter itself writes to.
const CURVE: [(&str, u32); 5] = [
    ("checkpoint_512k", 512 << 10),
    ("checkpoint_1m", 1 << 20),
    ("checkpoint_4m", 4 << 20),
    ("checkpoint_16m", 16 << 20),
    ("checkpoint_64m", 64 << 20),
];

/// The same of the session that is forked.
const FORKED_BYTES: u32 = 1 << 20;

/// Runs per turn.
const PER_TURN: usize = 5;

/// What sessions took.
#[derive(Debug, Default)]
pub(crate) struct SessionSamples {
    pub(crate) checkpoint: Samples,
    pub(crate) fork: Samples,
    pub(crate) hibernate: Samples,
    pub(crate) resume: Samples,
    /// `checkpoint` by private memory.
    pub(crate) curve: Vec<(&'static str, Samples)>,
}

/// The sessions that are measured in turns with everything else.
#[derive(Debug)]
pub(crate) struct SessionCases<'a> {
    sandbox: &'a Sandbox,
    source: &'a str,
    small: Session,
    forked: Session,
}

impl<'a> SessionCases<'a> {
    pub(crate) fn open(sandbox: &'a Sandbox, source: &'a str) -> anyhow::Result<Self> {
        Ok(Self { sandbox, source, small: sandbox.session()?, forked: holding(sandbox, FORKED_BYTES)? })
    }

    /// Measures every case but the curve.
    pub(crate) fn turn(&self, into: &mut SessionSamples) -> anyhow::Result<()> {
        block(&mut into.checkpoint, PER_TURN, || checkpoint(&self.small, self.source))?;
        block(&mut into.fork, PER_TURN, || made(|| Ok(self.forked.fork()?)))?;
        let options = HibernateOptions::default();
        block(&mut into.hibernate, PER_TURN, || {
            self.small.execute(self.source)?;
            made(|| Ok(self.small.hibernate(&options)?))
        })?;
        let state = self.small.hibernate(&options)?;
        block(&mut into.resume, PER_TURN, || made(|| Ok(self.sandbox.resume(&state, ResumeOptions::default())?)))
    }
}

/// Measures checkpoints of larger and larger sessions, one after the other: all of them at once are a lot of memory.
pub(crate) fn curve(sandbox: &Sandbox, source: &str, turns: u64) -> anyhow::Result<Vec<(&'static str, Samples)>> {
    let mut curve = Vec::new();
    for (case, bytes) in CURVE {
        let session = holding(sandbox, bytes)?;
        let mut samples = Samples::default();
        for _ in 0..turns {
            samples.push(checkpoint(&session, source)?);
        }
        curve.push((case, samples));
    }
    Ok(curve)
}

/// The time it takes to make something, without that of freeing it.
fn made<T>(make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let made = make()?;
    let took = start.elapsed();
    drop(made);
    Ok(took)
}

/// A checkpoint after an execution: the pages that this changed are saved, the others found to be as they were.
fn checkpoint(session: &Session, source: &str) -> anyhow::Result<Duration> {
    session.execute(source)?;
    let start = Instant::now();
    session.checkpoint()?;
    Ok(start.elapsed())
}

/// A session that holds so many bytes, none of them zero, and has one checkpoint.
fn holding(sandbox: &Sandbox, bytes: u32) -> anyhow::Result<Session> {
    let session = sandbox.session()?;
    let held = session.execute(&match sandbox.language() {
        Language::Python => format!("held = bytearray(b'\\xa5') * {bytes}"),
        Language::JavaScript => format!("globalThis.held = new Uint8Array({bytes}).fill(0xa5)"),
    })?;
    ensure!(held.is_success(), "a session cannot hold {bytes} bytes: {:?}", held.outcome);
    session.checkpoint()?;
    Ok(session)
}
